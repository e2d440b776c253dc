"""When a process stops waiting for a peer whose connection was cut."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

import pytest
from kernel_network_tcp.transport.tcp_connection import TcpConnection

from kernel_processes.transport.reactor import Reactor

PATIENCE = 600.0


class Agent:
    """What is left of an agent: a link that is cut, and a gateway, which may still listen."""

    def __init__(self, reactor: Reactor) -> None:
        self.reasons: list[str] = []
        self.reactor = reactor
        self.gateway = socket.create_server(("127.0.0.1", 0))
        self.gateway.setblocking(False)
        self.address = f"127.0.0.1:{self.gateway.getsockname()[1]}"
        self.link = TcpConnection(
            reactor, lambda *_: None, lambda link, reason: self.reasons.append(reason), PATIENCE, incoming=True
        )
        self.link.end_with(self.address)
        ours, self.theirs = socket.socketpair()
        self.link.attach(ours, 0)

    def cut(self) -> None:
        """Break the link as a reset does."""
        self.link._cut("the connection broke: Connection reset by peer", PATIENCE)

    def is_dialled(self) -> bool:
        """Take what dials the gateway; return whether anything did."""
        with suppress(BlockingIOError):
            self.gateway.accept()[0].close()
            return True
        return False

    def run_until(self, condition: Callable[[], bool]) -> None:
        """Run the loop of the head."""
        for _ in range(1000):
            if condition():
                return
            self.reactor.poll(0.02)
        raise AssertionError("it did not come")


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


def test_an_agent_at_whose_gateway_nobody_listens_is_given_up_soon(reactor: Reactor) -> None:
    agent = Agent(reactor)
    agent.gateway.close()
    agent.cut()
    agent.run_until(lambda: agent.link.closed)
    assert agent.reasons == [
        f"nothing listens at {agent.address} any more, and it was not resumed within {agent.link.ended_seconds:g} s"
    ]


def test_one_whose_gateway_listens_is_asked_again_until_it_does_not(reactor: Reactor) -> None:
    agent = Agent(reactor)
    agent.cut()
    for _ in range(2):
        agent.run_until(agent.is_dialled)
        assert not agent.link.closed
    agent.gateway.close()
    agent.run_until(lambda: agent.link.closed)


def test_a_link_that_is_mended_is_left_alone(reactor: Reactor) -> None:
    agent = Agent(reactor)
    agent.gateway.close()
    agent.cut()
    ours, agent.theirs = socket.socketpair()
    agent.link.attach(ours, 0)
    for _ in range(20):
        reactor.poll(0.05)
    assert not agent.link.closed and agent.reasons == []
