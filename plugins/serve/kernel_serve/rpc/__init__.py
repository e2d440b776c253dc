"""The part of gRPC that proxies and replicas share: a service's methods, and messages on exchanges.

Nothing here imports gRPC itself: the generated code of the user's services does, where it is imported.
"""
