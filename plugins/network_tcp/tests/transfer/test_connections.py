"""Connections of object transfer: kept for a while, and what is postponed on them."""

from __future__ import annotations

import socket

from kernel_network_tcp.transfer.connections import Connections


class Now:
    """A clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_connections_are_kept_for_a_while() -> None:
    now, made = Now(), []

    def connect(address: str) -> socket.socket:
        made.append(socket.socketpair())
        return made[-1][0]

    connections = Connections(connect, 5.0, now)
    assert connections.take("a") is None
    first, second = connections.make("a"), connections.make("a")
    assert first.gettimeout() == 5.0
    connections.give_back("a", first)
    now.now = 10.0
    connections.give_back("a", second)
    assert connections.close_idle(5.0)
    assert first.fileno() == -1 and connections.take("b") is None
    assert connections.take("a") is second
    connections.close()
    connections.give_back("a", second)
    assert second.fileno() == -1
    for _, other in made:
        other.close()


def test_what_is_postponed_is_sent_once() -> None:
    connections = Connections(lambda address: socket.socketpair()[0], 5.0, Now())
    connections.postpone("a", b"one")
    connections.postpone("a", b"two")
    assert connections.postponed("b") == b""
    assert connections.postponed("a") == b"onetwo"
    assert connections.postponed("a") == b""
    connections.postpone("a", b"three")
    connections.forget("a")
    assert connections.postponed("a") == b""
