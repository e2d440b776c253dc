"""The REST API: what runs, and what is to run, over HTTP with the session's token."""
