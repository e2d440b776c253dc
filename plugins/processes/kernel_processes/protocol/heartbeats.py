"""Heartbeats show a head and its agents that the other side is alive. This module has their intervals and limits."""

from __future__ import annotations

HEARTBEAT_SECONDS = 0.5
DEATH_SECONDS = 5.0
"""Seconds without an answered heartbeat after which a node is declared dead. The option is `node_death_seconds`."""
CLIENT_PATIENCE = 3
"""A remote driver may be silent for this multiple of the time: its network is another one, and nothing runs there."""


def patience(death_seconds: float, is_client: bool) -> float:
    """Return for how many seconds an agent may be silent, `is_client` being that of a remote driver."""
    return death_seconds * (CLIENT_PATIENCE if is_client else 1)
