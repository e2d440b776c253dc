"""The proxies: HTTP, WebSockets and gRPC from outside, handed to replicas by the router of the proxy's process."""
