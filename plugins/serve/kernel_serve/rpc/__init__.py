"""What proxies and replicas share of gRPC: a service's methods, and messages on exchanges.

Nothing here imports gRPC itself: what was generated for the user's services does, where it is imported.
"""
