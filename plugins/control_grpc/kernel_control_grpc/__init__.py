"""The public control plane in gRPC: what `spec/proto` describes, served beside the head, and a client for it.

The head imports `server` when the first connection comes (`kernel_processes.head.socket_activation`). Python programs
ask by `client`.
"""
