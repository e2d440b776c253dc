"""The proxies: they take HTTP, WebSockets and gRPC from outside, and send requests to replicas by a router."""
