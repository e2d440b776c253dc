"""Connectors: what stands between environments and modules, for all lanes at once."""
