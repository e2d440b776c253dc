"""What actors, placement groups and objects wait for, put together of what the head and all processes know."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.logs import Logger
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.explanations import Explanations
from kernel_processes.head.gathering import PATIENCE_SECONDS, Gathering
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.ids import ActorId, GroupId, JobId, NodeId, ObjectId, ProcessId, task_of

OWNER = ProcessId(b"owner---")
TASK = OWNER + b"task---1"
OBJECT = ObjectId(TASK + bytes(4))
ACTOR, GROUP = ActorId(OWNER + b"actor--1"), GroupId(OWNER + b"group--1")


class Stage:
    """An owner, a worker and a tool, which answer when the test says so; an actor and a placement group."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Any], None]] = []
        self.questions: list[tuple[Any, ...]] = []
        self.timers: list[Callable[[], None]] = []
        self.waits: dict[bytes, str] = {}
        """Tasks that wait at a breakpoint, to a sentence on that."""
        cluster = ClusterTable(NodeId(b"node"))
        cluster.ask = self.ask  # type: ignore[method-assign]
        node: Any = SimpleNamespace(id=b"node")
        for id, role in ((OWNER, "driver"), (ProcessId(b"worker--"), "worker"), (ProcessId(b"reads---"), "tool")):
            cluster.callers[id] = ProcessRecord(id, role, len(cluster.callers), "", JobId(b"job"), "", {}, node)
        reactor: Any = SimpleNamespace(call_later=lambda seconds, function: self.timers.append(function))
        actors: Any = SimpleNamespace(
            table=SimpleNamespace(actors={ACTOR: None}), explain=lambda actor: "it is in its constructor"
        )
        groups: Any = SimpleNamespace(
            table=SimpleNamespace(groups={GROUP: None}), explain=lambda group: "there is no room"
        )
        breakpoints: Any = SimpleNamespace(of=lambda task: self.waits.get(task, ""))
        self.dispatcher = MessageDispatcher(cluster, Logger("test"))
        self.dispatcher.methods["explain_lease"] = lambda caller, lease: f"lease {lease.decode()} waits"
        Explanations(self.dispatcher, Gathering(cluster, reactor), actors, groups, breakpoints)

    def ask(self, caller: ProcessRecord, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        self.questions.append((method, *arguments))
        self.asked.append(then)

    def explain(self, prefix: bytes, *answers: Any) -> list[tuple[str, str, str]]:
        """Return the rows for `prefix`, once the processes have given these answers, and the others have not."""
        found: list[Any] = []
        self.dispatcher.methods["explain_any"](None, prefix).when_done(found.append)
        assert self.questions == [("explain_matches", prefix)] * 2, "a tool knows nothing"
        for then, answer in zip(self.asked, answers, strict=False):
            then(answer)
        self.timers[0]()
        rows: list[tuple[str, str, str]] = pickle.loads(found[0])
        return rows


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_all_whose_id_begins_so_is_explained(stage: Stage) -> None:
    rows = stage.explain(OWNER, [(OBJECT, True, "its task waits", ("explain_lease", b"7"))], [])
    assert rows == [
        ("actor", ACTOR.hex(), "it is in its constructor"),
        ("placement group", GROUP.hex(), "there is no room"),
        ("object", OBJECT.hex(), "its task waits: lease 7 waits"),
    ]


def test_of_an_object_its_owner_knows_more_than_others(stage: Stage) -> None:
    rows = stage.explain(TASK, [(OBJECT, True, "it is being made", None)], [(OBJECT, False, "it is not here", None)])
    assert rows == [("object", OBJECT.hex(), "it is being made")]


def test_where_a_task_waits_for_a_debugger_is_said(stage: Stage) -> None:
    stage.waits[task_of(OBJECT)] = "it waits at a breakpoint"
    rows = stage.explain(TASK, [(OBJECT, True, "it is being made", None)], [])
    assert rows == [("object", OBJECT.hex(), "it is being made; it waits at a breakpoint")]


def test_the_object_that_stands_for_an_actor_is_explained_by_that(stage: Stage) -> None:
    own = ObjectId(ACTOR + bytes(4))
    assert stage.explain(own, [(own, True, "an actor", None)], []) == [
        ("actor", ACTOR.hex(), "it is in its constructor")
    ]


@pytest.mark.parametrize("known", [True, False])
def test_who_did_not_answer_may_know_more_of_objects(stage: Stage, known: bool) -> None:
    rows = stage.explain(TASK, [(OBJECT, True, "it is being made", None)] if known else [])
    said = f"pid 1 on node {b'node'.hex()} did not answer within {PATIENCE_SECONDS:g} s, and may know more of this"
    assert rows[-1] == ("process", b"worker--".hex(), said) and len(rows) == 1 + known


def test_of_an_actor_no_other_process_knows_more(stage: Stage) -> None:
    assert stage.explain(ACTOR) == [("actor", ACTOR.hex(), "it is in its constructor")]
