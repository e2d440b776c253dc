"""Decide which connections are relayed. A pure state machine: events in, instructions out; time and tickets are given.

A caller that has proved the token asks for a *route*: the gateway of a node, or the id of a remote driver's agent (a
*client*). The relay connects to a node that has joined. A client can't be dialled: it is sent a ticket, with which it
dials back, and then both are joined. A ticket can be used once, within some seconds, by the client that it was sent to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kernel_processes.transport.addresses import is_client
from kernel_spec.dataclass import dataclass

TICKET_SECONDS = 10.0
"""Seconds for a client to dial back, and for a client itself to return after a cut."""
MAXIMUM_WAITING = 256
"""Maximum number of callers that may wait for one client; beyond it, the one that has waited longest is refused."""


@dataclass(frozen=True, slots=True)
class Here:
    """Serve the caller as if it had not been relayed: the route leads to this very gateway."""

    caller: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect the caller to the gateway at `place`."""

    caller: int
    place: str


@dataclass(frozen=True, slots=True)
class CallBack:
    """Have a client dial back with `ticket`."""

    client: str
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Join:
    """Join the caller with the connection that dialled back for it."""

    caller: int
    other: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell the caller that it can't be relayed now; `reason` is for the log."""

    caller: int
    reason: str


Instruction = Here | Connect | CallBack | Join | Refuse


@dataclass(slots=True)
class _WaitingCaller:
    """Holds a caller that waits for a client."""

    caller: int
    client: str
    until: float


class RelayTable:
    """Holds callers and clients of a cluster's relay. `own` is its gateway; `make_ticket()` returns random bytes."""

    def __init__(self, own: str, make_ticket: Callable[[], bytes]) -> None:
        self.own = own
        self.members: set[str] = set()
        self.clients: set[str] = set()
        self.waiting: dict[bytes, _WaitingCaller] = {}
        """By ticket, those that have waited longest first."""
        self._make_ticket = make_ticket
        self._history: deque[str] = deque(maxlen=200)

    def member(self, place: str, there: bool) -> None:
        """Note that a node with its gateway at `place` has joined, or has left."""
        if place != self.own:
            self._note(f"node at {place}: {there}")
            (self.members.add if there else self.members.discard)(place)

    def client_came(self, client: str) -> list[Instruction]:
        """Note that a client has joined, perhaps again, and send it the tickets of its waiting callers."""
        self._note(f"client {client} is there")
        self.clients.add(client)
        return [CallBack(client, ticket) for ticket, one in self.waiting.items() if one.client == client]

    def client_left(self, client: str) -> None:
        """Note that a client has left, perhaps not for good: its callers go on waiting."""
        self._note(f"client {client} is gone")
        self.clients.discard(client)

    def asked(self, caller: int, route: str, now: float) -> list[Instruction]:
        """Connect a caller, which has proved the token, with `route`, or refuse it. `caller` is the shell's number."""
        self._note(f"{caller} wants {route!r}")
        if route == self.own:
            return [Here(caller)]
        if route in self.members:
            return [Connect(caller, route)]
        if not is_client(route):
            return [Refuse(caller, f"a peer asked for the gateway {route!r:.100}, which is that of no node")]
        return self._wait(caller, route, now)

    def called_back(self, other: int, ticket: bytes, now: float) -> list[Instruction]:
        """Join a connection that was dialled back for a ticket with its caller, or refuse it."""
        one = self.waiting.pop(ticket, None)
        if one is None or one.until <= now:
            self._note(f"{other} has a ticket that is not good")
            expired: list[Instruction] = [] if one is None else [_late(one)]
            return [*expired, Refuse(other, "a peer dialled back with a ticket that is not good, or not any more")]
        self._note(f"{other} dialled back for {one.caller}")
        return [Join(one.caller, other)]

    def tick(self, now: float) -> list[Instruction]:
        """Refuse the callers whose time has run out."""
        late = [ticket for ticket, one in self.waiting.items() if one.until <= now]
        return [_late(self.waiting.pop(ticket)) for ticket in late]

    def _wait(self, caller: int, client: str, now: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        same = [ticket for ticket, one in self.waiting.items() if one.client == client]
        if len(same) >= MAXIMUM_WAITING:
            oldest = self.waiting.pop(same[0])
            instructions.append(Refuse(oldest.caller, f"too many wait for the remote driver {client}"))
        ticket = self._make_ticket()
        self.waiting[ticket] = _WaitingCaller(caller, client, now + TICKET_SECONDS)
        if client in self.clients:
            instructions.append(CallBack(client, ticket))
        return instructions

    def _note(self, what: str) -> None:
        self._history.append(what)

    def validate(self) -> None:
        """Raise AssertionError, with the history, when an invariant is broken."""
        story = "\n".join(self._history)
        callers = [one.caller for one in self.waiting.values()]
        assert len(callers) == len(set(callers)), f"somebody waits twice\n{story}"
        assert self.own not in self.members, f"the relay would connect to itself\n{story}"
        for one in self.waiting.values():
            count = sum(other.client == one.client for other in self.waiting.values())
            assert count <= MAXIMUM_WAITING, f"{count} wait for {one.client}\n{story}"


def _late(one: _WaitingCaller) -> Refuse:
    return Refuse(one.caller, f"the remote driver {one.client} did not dial back within {TICKET_SECONDS:g} s")
