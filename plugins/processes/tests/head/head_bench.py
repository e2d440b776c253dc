"""A head between nodes and a scheduler that do what a test says, and all that it tells them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.head import Head, HeadConfig
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.protocol import head_messages
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.observers import LifecycleEvent
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import Event, Grant, Instruction, LeaseRequested, Reason, SchedulerSnapshot

CPU = amounts({"CPU": 1})
JOB = JobId(b"job-1234")
DRIVER, WORKER, OTHER = ProcessId(b"driver"), ProcessId(b"worker-1"), ProcessId(b"worker-2")
GROUP = GroupId(b"group-01")
FIRST, SECOND = NodeId(b"node---1"), NodeId(b"node---2")


class Scripted:
    """A scheduler that notes what it hears, and answers an event with what the test has put into `answers`."""

    name = "scripted"

    def __init__(self) -> None:
        self.received: list[Event] = []
        self.answers: dict[type, list[Instruction]] = {}

    def handle(self, event: Event, now: float) -> list[Instruction]:
        self.received.append(event)
        return self.answers.pop(type(event), [])

    def explain(self, id: LeaseId | GroupId, now: float) -> Reason:
        return Reason("busy", "there is no room")

    def snapshot(self) -> SchedulerSnapshot:
        return SchedulerSnapshot({}, {}, [], {})

    def validate(self) -> None:
        return None

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.received]


class Log:
    """Keeps what is logged."""

    def __init__(self, logged: list[tuple[str, str, dict[str, Any]]]) -> None:
        self._logged = logged

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda text, **details: self._logged.append((level, text, details))


class Bench:
    """A head with two nodes, a driver and two workers on the first, and all that it says to them."""

    def __init__(self, store: LocalMetadataStore | None = None, **config: Any) -> None:
        self.scheduler = Scripted()
        self.events: list[LifecycleEvent] = []
        self.observer: Any = SimpleNamespace(observe=self.events.extend)
        self.timers: list[tuple[float, Callable[[], None]]] = []
        """What is to happen later: in how many seconds, and what."""
        self.ended: list[str] = []
        self.store = store or LocalMetadataStore()
        self.now = 1.0
        reactor: Any = SimpleNamespace(
            clock=lambda: self.now, call_later=lambda seconds, function: self.timers.append((seconds, function))
        )
        makers: dict[str, Any] = {
            "node_provider": None,
            "scheduler": lambda: self.scheduler,
            "metadata_store": lambda directory: self.store,
        }
        manager: Any = SimpleNamespace(
            all=lambda kind: [self.observer],
            choose=makers.__getitem__,
            make=lambda kind, *arguments: makers[kind](*arguments),
            make_many=lambda kind, names=(): [],
            label=lambda thing: "the observer of the plugin 'test'",
            options_of=lambda plugin: {},
            problems={},
        )
        self.logged: list[tuple[str, str, dict[str, Any]]] = []
        log: Any = Log(self.logged)
        told = HeadConfig("/nowhere", "/nowhere", **{"ephemeral": False, **config})
        self.head = Head(told, reactor, manager, self.ended.append, log)
        self.recovery = self.head.recovery
        self.said: list[tuple[Any, ...]] = []
        """All that was said to nodes."""
        self.said_to: dict[NodeId, list[tuple[Any, ...]]] = {}
        """The same by node, since it was taken the last time."""
        self.nodes = [self.node(FIRST, "first:1"), self.node(SECOND, "second:1")]

    def node(self, id: NodeId, address: str) -> NodeRecord:
        def send(message: tuple[Any, ...]) -> None:
            self.said.append(message)
            self.said_to.setdefault(id, []).append(message)

        return NodeRecord(id, send, {"CPU": 4.0, "GPU": 4.0}, {}, ("GPU",), "host", address, "/nowhere", 1, 0.0)

    def take(self, node: NodeId) -> list[tuple[Any, ...]]:
        """Return what a node was told since the last time."""
        return self.said_to.pop(node, [])

    def happened(self, kind: str) -> list[tuple[str, bytes, dict[str, Any]]]:
        """Return what observers were told of a kind: states, ids, details."""
        self.head.observation.deliver()
        return [
            (event.state, bytes.fromhex(event.id), dict(event.detail)) for event in self.events if event.kind == kind
        ]

    def join(self) -> None:
        for node in self.nodes:
            self.head.add_node(node)
        self.process(DRIVER, "driver")
        self.process(WORKER, "worker")
        self.process(OTHER, "worker")

    def process(self, id: ProcessId, role: str, node: int = 0) -> None:
        self.tell(node, *packed(head_messages.ProcessJoined(id, role, 1, f"/{id!r}", JOB, "", {"namespace": "space"})))

    def tell(self, node: int, *message: Any) -> None:
        self.head.dispatcher.handle(self.nodes[node], message)

    def call(self, method: str, *arguments: Any) -> Any:
        """Ask the head as the driver, and return the answer, None when there is none yet."""
        self.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.CALL, 7, method, arguments))
        return self.answer()

    def answer(self) -> Any:
        for message in self.received_by(DRIVER):
            if message[0] == op.REPLY_ERROR:
                raise pickle.loads(message[2])
            if message[0] in (op.REPLY, op.REPLY_PICKLED):
                return message[2] if message[2] is not None else "nothing"
        return None

    def received_by(self, process: ProcessId) -> list[Any]:
        """Return what the head said to a process since the last time."""
        received = [
            message[2] for message in self.said if message[0] == head_messages.TO_PROCESS and message[1] == process
        ]
        self.said[:] = [message for message in self.said if message[:2] != (head_messages.TO_PROCESS, process)]
        return received

    def actors(self) -> list[dict[str, Any]]:
        """Return the rows of all actors."""
        rows: list[dict[str, Any]] = pickle.loads(self.head.dispatcher.methods["actors"](None))
        return rows

    def told(self, word: int) -> list[Any]:
        return [message[1:] for message in self.said if message[0] == word]

    def lease(self, id: bytes, granted: bool = True, served: ProcessId | None = None, group: bool = True) -> None:
        """Ask for a lease as the driver, in the group, and have it granted on the first node and served."""
        if granted:
            self.scheduler.answers[LeaseRequested] = [Grant(LeaseId(id), FIRST, Allocation(CPU), 0)]
        strategy = {"type": "placement_group", "group": GROUP.hex(), "bundle": -1} if group else "DEFAULT"
        shape = (CPU, pickle.dumps((strategy, {})), b"", True)
        near = {"second:1": 5_000_000, "unknown:1": 9_000_000}
        self.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, id, shape, "f", near))
        if served is not None:
            self.tell(0, head_messages.WORKER_FOUND, id, 1, served)
