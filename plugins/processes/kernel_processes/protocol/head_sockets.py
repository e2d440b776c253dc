"""Name the sockets where the head listens on its own machine, below the directory of a session."""

from __future__ import annotations

import os


def head_socket(directory: str) -> str:
    """Return the path of the socket by which a head in a process of its own is joined by the agent beside it."""
    return os.path.join(directory, "sockets", "head")


def control_plane_socket(directory: str) -> str:
    """Return the path of the socket of the head's control plane."""
    return os.path.join(directory, "sockets", "head.grpc")
