"""When a node counts as dead: to the tenth of a second, by a clock in the test's hands."""

from __future__ import annotations

import heapq
import itertools
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.control import words
from kernel.control.door import LOOK_SECONDS, PULSE_SECONDS, Door
from kernel.control.nodes import Node
from kernel.runtime.process import PYTHON
from kernel.transport.reactor import Reactor as RealReactor
from kernel.transport.tcp_connection import TcpConnection
from kernel_spec.version import __version__

DEATH_SECONDS = 5.0


class Reactor:
    """Time passes when `run` says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def clock(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), function))

    def run(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end and not until():
            due, _, function = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            function()
        if not until():
            self.now = end

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which nothing is done."""
        self.now += seconds


class Agent:
    """The other end of a connection, which answers pulses while `answers`."""

    def __init__(self, door: Door, name: bytes) -> None:
        self.door = door
        self.answers = True
        self.closed, self.info, self.outbox = False, None, ()
        self.reason = ""
        self.on_close: Any = None
        self.pulses = 0
        door.on_messages(self, [(words.JOIN, name, PYTHON, __version__, "host")])  # type: ignore[arg-type,list-item]

    def say(self, *message: Any) -> None:
        self.door.on_messages(self, [message])  # type: ignore[arg-type,list-item]

    def send(self, message: Any) -> None:
        if message[0] == words.PULSE:
            self.pulses += 1
            if self.answers:
                self.say(words.PULSE)

    def flush(self) -> None: ...

    def close(self, reason: str) -> None:
        self.closed, self.reason = True, reason


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def door(reactor: Reactor) -> Door:
    return door_of(reactor, DEATH_SECONDS)


def door_of(reactor: Reactor, death_seconds: float) -> Door:
    head: Any = SimpleNamespace(
        reactor=reactor,
        nodes={},
        restoration=SimpleNamespace(active=False),
        ending=None,
        why_fallen=lambda id: "",
        log=SimpleNamespace(),
    )
    return Door(head, {}, death_seconds)


def test_pulses_go_to_and_fro(reactor: Reactor, door: Door) -> None:
    agent = Agent(door, b"a")
    reactor.run(60.0)
    assert not agent.closed
    assert agent.pulses == pytest.approx(60 / PULSE_SECONDS, rel=0.2)


@pytest.mark.parametrize("after", [0.01 * n for n in range(0, 60, 7)])
def test_who_falls_silent_is_given_up_in_time_whenever_it_does(reactor: Reactor, door: Door, after: float) -> None:
    silent, other = Agent(door, b"a"), Agent(door, b"b")
    reactor.run(10.0 + after)
    silent.answers, begun = False, reactor.now
    reactor.run(20.0, until=lambda: silent.closed)
    took = reactor.now - begun
    assert DEATH_SECONDS - PULSE_SECONDS - 2 * LOOK_SECONDS <= took <= DEATH_SECONDS + 1e-6
    assert silent.reason.startswith("nothing was heard of it for ")
    reactor.run(20.0)
    assert not other.closed


def test_who_talks_but_hears_nothing_is_given_up_too(reactor: Reactor, door: Door) -> None:
    agent = Agent(door, b"a")
    reactor.run(10.0)
    agent.answers = False
    for _ in range(60):
        reactor.run(0.1)
        if not agent.closed:
            agent.say(words.LEAVE + 1000)
    assert agent.closed


def test_time_in_which_the_head_stood_still_counts_against_nobody(reactor: Reactor, door: Door) -> None:
    agent, silent = Agent(door, b"a"), Agent(door, b"b")
    reactor.run(10.0)
    silent.answers = False
    reactor.stand_still(600.0)
    reactor.run(3.0)
    assert not agent.closed and not silent.closed
    reactor.run(DEATH_SECONDS)
    assert silent.closed and not agent.closed


def test_where_death_comes_soon_neither_a_late_answer_nor_a_short_stand_of_the_head_is_death(reactor: Reactor) -> None:
    agent = Agent(door := door_of(reactor, 1.0), b"a")
    reactor.run(10.0)
    assert agent.pulses == pytest.approx(10 / 0.2, rel=0.2)
    agent.answers = False
    reactor.run(0.6)
    reactor.stand_still(0.45)  # the answer to the last pulse waits to be read meanwhile
    reactor.run(0.15)
    assert not agent.closed
    door.on_messages(agent, [(words.PULSE,)])  # type: ignore[arg-type]
    reactor.run(0.6)
    assert not agent.closed
    reactor.run(1.0)
    assert agent.closed


@pytest.mark.parametrize(("client", "seconds"), [(False, 20.0), (True, 60.0)], ids=["node", "remote driver"])
def test_a_cut_link_is_mended_for_as_long_as_the_agent_may_be_silent(client: bool, seconds: float) -> None:
    reactor = RealReactor()
    nodes: list[Node] = []
    head = SimpleNamespace(
        nodes={}, reactor=reactor, ending=None, why_fallen=lambda id: "", add_node=nodes.append,
        restoration=SimpleNamespace(active=False),
    )  # fmt: skip
    door = Door(head, {}, 20.0)  # type: ignore[arg-type]
    link = TcpConnection(reactor, door.on_messages, door.on_close)
    door.on_messages(link, [(words.JOIN, b"node-one", PYTHON, __version__, "host")])
    said = {"total": {}, "labels": {}, "devices": (), "host": "", "address": "", "directory": "", "pid": 1}
    door.on_messages(link, [(words.NODE, pickle.dumps({**said, "client": client}))])
    assert [node.client for node in nodes] == [client]
    assert link.resume_seconds == seconds
    reactor.close()
