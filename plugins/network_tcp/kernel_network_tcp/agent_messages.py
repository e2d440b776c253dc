"""Messages between agents, without the head: messages for processes of other nodes, and orders about objects."""

FORWARD = 1
"""agent -> agent: process id, message. Hand it to that process."""
DELETE = 2
"""agent -> agent: object ids. Their owner counts no references."""
KEEP = 3
"""agent -> agent: object id. That copy is the one that counts now."""
