"""HTTP/2 at the port of serve's proxies."""
