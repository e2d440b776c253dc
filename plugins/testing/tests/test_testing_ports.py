"""Ports that tests give to programs before they listen there."""

from __future__ import annotations

import socket
from pathlib import Path

from kernel_testing.ports import free_port


def test_a_free_port_is_free_and_none_that_connections_take() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        port = free_port()
        assert 10_000 <= port < max(lowest, 32_768)
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_it_is_not_one_that_somebody_has(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        found = iter([port, port, 10_001])
        monkeypatch.setattr("random.SystemRandom.randrange", lambda self, *ends: next(found))
        assert free_port() == 10_001
