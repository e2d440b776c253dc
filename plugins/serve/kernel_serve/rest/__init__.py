"""The REST API over HTTP: read and change what runs, with the session's token."""
