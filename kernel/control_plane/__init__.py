"""The public control plane in gRPC: what `spec/proto` describes, served beside the head, and a client for it.

Nothing here imports grpc before somebody speaks it: `doorbell` starts the server when the first connection comes.
"""
