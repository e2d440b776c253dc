"""The tune server: trials of a running experiment over HTTP, and the client for it."""
