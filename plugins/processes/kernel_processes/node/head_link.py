"""Link an agent to the head: by a queue in each direction within one process, otherwise by a connection."""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kernel_engine.messages.named_messages import Message, number_of, packed, unpacked
from kernel_processes.node.connect_hints import connect_hint
from kernel_processes.node.detection import host_name
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.heartbeats import DEATH_SECONDS, HEARTBEAT_SECONDS, patience
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.addresses import NOBODY, is_tcp, place_of
from kernel_processes.transport.connect import Connector
from kernel_processes.transport.connection import Connection
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import NodeId
from kernel_spec.version import __version__

JOIN_SECONDS = 10.0
LEAVE_SECONDS = 1.0
ANOTHER_HEAD_SECONDS = 3.0
"""Seconds for which a joining node waits when a gateway answers without a head behind it."""
DOUBT_SHARE = 0.3
"""Part of the time after which a silent node is declared dead. An agent redials a head that is silent so long."""
REDIAL_SECONDS = (0.05, 1.0)
"""Seconds before a new attempt to connect: at first, and at most. Each pause is 1.5 times the one before."""

_HEARTBEAT, _WELCOME = number_of(head_messages.Heartbeat), number_of(head_messages.Welcome)
_REFUSED = number_of(head_messages.JoinRefused)


class HeadLink(Protocol):
    """Links an agent to its head."""

    def send(self, message: Message) -> None:
        """Queue a message (`kernel_processes.protocol.head_messages`) to the head."""

    def exchange(self) -> bool:
        """Deliver all queued messages; return whether there were any. Called once in each turn of the loop."""


class LocalHeadLink:
    """Holds both ends of the link when head and agent share a process: messages are queued, and not serialized.

    `to_head(message)` and `to_node(message)` handle what arrives at either end, in order.
    """

    def __init__(self, to_head: Callable[[Message], None], to_node: Callable[[Message], None]) -> None:
        self._to_head, self._to_node = to_head, to_node
        self._up: deque[Message] = deque()
        self._down: deque[Message] = deque()
        self.send = self._up.append
        self.send_down = self._down.append

    def exchange(self) -> bool:
        """Deliver messages until both queues are empty."""
        up, down = self._up, self._down
        if not up and not down:
            return False
        while up or down:
            while up:
                self._to_head(up.popleft())
            while down:
                self._to_node(down.popleft())
        return True


class RemoteHeadLink:
    """Links an agent by a connection to a head in another process, perhaps on another machine.

    `join` waits until the head has accepted this node. After `begin`, `to_node(message)` is called with messages, and
    `on_lost(reason)` when the link is lost for good. A head with durable metadata (`settings["durable"]`) may be
    restarted: then the link tries to reconnect for `settings["head_away_seconds"]` seconds, and sends the messages
    of `snapshot(unacknowledged)` to the new head. Messages are kept until the head has handled them; `unacknowledged`
    are those that the old head may not have handled.
    """

    def __init__(
        self,
        address: str,
        connector: Connector,
        reactor: Reactor,
        node: NodeId,
    ) -> None:
        self._address = address
        self._place = place_of(address) if is_tcp(address) else address
        self._connector = connector
        self._reactor = reactor
        self._node = node
        self._leaving = False
        self.gives_up = True
        """Whether to give up a head that stays away; False where this process restarts it, and reports failures."""
        self.settings: dict[str, Any] = {}
        self._description: Mapping[str, Any] = {}
        self._refusal = ""
        self._lost = ""
        self._lost_at = 0.0
        self._joined = False
        self._waiting: list[Message] = []
        self._to_node: Callable[[Message], None] = self._waiting.append
        self._on_lost: Callable[[str], None] = lambda reason: None
        self._snapshot: Callable[[Sequence[Message]], Iterable[Message]] = tuple
        self._log: deque[Message] = deque()
        self._done = 0
        self._pause = REDIAL_SECONDS[0]
        self._watched_at = self._last_heartbeat_at = reactor.clock()
        self._connection = self._dial()

    def send(self, message: Message) -> None:
        """Queue a message to the head; it is kept until the head has handled it."""
        self._log.append(message)
        if self._joined:
            self._connection.send(message)

    @property
    def was_refused(self) -> bool:
        """Whether the head has refused this node."""
        return bool(self._refusal)

    def join(self, seconds: float = JOIN_SECONDS, program: bool = False) -> None:
        """Wait for the `settings` that the head sends to every node. Raises SessionEndedError if it refuses this node.

        The error is for the user who started a node or, with `program`, a remote driver.
        """
        deadline = self._reactor.clock() + seconds
        awaited = self._reactor.clock() + ANOTHER_HEAD_SECONDS
        while not self.settings and self._reactor.clock() < deadline:
            self._reactor.poll(min(self._pause, deadline - self._reactor.clock()))
            if self._lost and NOBODY in self._lost and self._reactor.clock() < awaited:
                self._lost = ""  # The head may be restarting.
                self._connection = self._dial()
            elif self._lost:
                break
        if self.settings:
            return
        why = self._refusal or self._lost or f"it did not answer within {seconds:g} s"
        what = (
            f"no way to the cluster at {self._place}" if program else f"this node can't join the head at {self._place}"
        )
        raise SessionEndedError(f"{what}: {why}{connect_hint(why, program)}")

    def begin(
        self,
        description: Mapping[str, Any],
        to_node: Callable[[Message], None],
        snapshot: Callable[[Sequence[Message]], Iterable[Message]],
        on_lost: Callable[[str], None],
    ) -> None:
        """Describe the node to the head, which uses it from then on."""
        self._description, self._to_node, self._snapshot, self._on_lost = description, to_node, snapshot, on_lost
        self._introduce()
        for message in self._waiting:
            to_node(message)
        self._watched_at = self._last_heartbeat_at = self._reactor.clock()
        self._reactor.call_later(HEARTBEAT_SECONDS, self._watch)
        if self._lost:
            self._on_close(self._connection, self._lost)

    def exchange(self) -> bool:
        """Write the queued messages."""
        if not self._connection.outbox:
            return False
        self._connection.flush()
        return True

    def leave(self, reason: str) -> None:
        """Send the head that this node leaves, and close."""
        self._on_lost = lambda reason: None
        self._leaving = True
        if not self._connection.closed:
            self._connection.send(packed(head_messages.LeaveCluster(reason=reason)))
            self._connection.write_out(LEAVE_SECONDS)
            self._connection.close(reason)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _dial(self) -> Connection:
        connection = self._connector.connect(self._address, self._on_messages, self._on_close)
        connection.send(
            packed(head_messages.JoinCluster(node=self._node, python=PYTHON, version=__version__, host=host_name()))
        )
        connection.flush()
        return connection

    def _introduce(self) -> None:
        """Introduce this node; to a restarted head, also report the node's state."""
        self._joined = True
        self._last_heartbeat_at = self._reactor.clock()
        self._pause = REDIAL_SECONDS[0]
        self._done = 0
        death, is_client = self.settings.get("death_seconds", DEATH_SECONDS), bool(self._description.get("client"))
        wait = self._connection.wait_even_if_ended if is_client else self._connection.wait_at_least
        wait(patience(death, is_client))  # The agent waits as long as the head would.
        unacknowledged, self._log = self._log, deque()
        self.send(packed(head_messages.DescribeNode(description=pickle.dumps(dict(self._description)))))
        if self.settings["tell_all"]:
            for message in self._snapshot(tuple(unacknowledged)):
                self.send(message)
            self.send(packed(head_messages.AllTold()))
        else:
            for message in unacknowledged:
                self.send(message)
        self._connection.flush()

    def _watch(self) -> None:
        """Dial again when the head is silent.

        TCP waits longer and longer before it sends lost packets again. And another head may have taken over on another
        machine with the same address.
        """
        self._reactor.call_later(HEARTBEAT_SECONDS, self._watch)
        now = self._reactor.clock()
        stood_still, self._watched_at = now - self._watched_at - HEARTBEAT_SECONDS, now
        self._last_heartbeat_at += stood_still if stood_still > HEARTBEAT_SECONDS else 0.0
        silent, death = now - self._last_heartbeat_at, self.settings.get("death_seconds", DEATH_SECONDS)
        too_long = silent > max(DOUBT_SHARE * death, 2 * HEARTBEAT_SECONDS)
        if self._joined and too_long:
            self._last_heartbeat_at = now
            self._connection.doubt(f"no heartbeat from the head for {silent:.1f} s")

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for message in messages:
            if message[0] == _HEARTBEAT:
                self._last_heartbeat_at = self._reactor.clock()
                self._forget_done(unpacked(head_messages.Heartbeat, message).done)
                connection.send(packed(head_messages.Heartbeat()))
                connection.flush()
            elif message[0] == _WELCOME:
                self.settings = pickle.loads(unpacked(head_messages.Welcome, message).settings)
                if self._description:
                    self._lost = ""
                    self._introduce()
            elif message[0] == _REFUSED:
                self._refusal = unpacked(head_messages.JoinRefused, message).reason
                connection.close(self._refusal)
            else:
                self._to_node(message)

    def _forget_done(self, done: int) -> None:
        while self._done < done and self._log:
            self._log.popleft()
            self._done += 1

    def _on_close(self, connection: Connection, reason: str) -> None:
        first, self._joined = not self._lost, False
        self._lost = self._refusal or reason.removeprefix(f"no connection to {self._address}: ")
        if not self._description:
            return  # `join` says so
        if first:
            self._lost_at = self._reactor.clock()
        tries = bool(self.settings.get("durable")) and not self._refusal
        seconds = 0.0 if not tries else self.settings["head_away_seconds"] if self.gives_up else math.inf
        if not self._leaving and self._reactor.clock() - self._lost_at < seconds:
            self._reactor.call_later(self._pause, self._redial)
            self._pause = min(self._pause * 1.5, REDIAL_SECONDS[1])
        else:
            self._on_lost(f"{self._lost}, for {seconds:g} s" if tries else self._lost)

    def _redial(self) -> None:
        if not self._joined and not self._leaving:
            try:
                self._connection = self._dial()
            except OSError as error:  # No head listens there yet.
                self._on_close(self._connection, f"no head answers at {self._address}: {error.strerror}")
