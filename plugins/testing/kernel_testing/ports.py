"""Ports for programs that are told where to listen, before they do."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST, _USUAL = 10_000, 32_768
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port of 127.0.0.1 at which nobody listens, and that the system gives to nobody who takes any port.

    It is free for whoever is told of it, also when other tests make connections meanwhile.
    """
    given = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _USUAL
    while True:
        port = random.SystemRandom().randrange(_LOWEST, max(given, _USUAL))
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
