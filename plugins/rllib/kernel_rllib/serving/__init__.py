"""Episodes of other processes: a server of policies over HTTP, and its client."""
