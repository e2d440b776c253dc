"""The commands of sessions: start, stop, status and what else one asks of them. The kernel's table names them."""
