"""Questions that the head passes on to every process: answered once, with what came in time."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kernel.logs import Logger
from kernel.runtime.timeline_events import events_of
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.gathering import Gathering
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.head.process_queries import ProcessQueries
from kernel_spec.ids import JobId, NodeId, ProcessId


class Stage:
    """Two workers that answer when the test says so, and a clock that runs when it says so."""

    def __init__(self) -> None:
        self.asked: list[Callable[[Any], None]] = []
        self.timers: list[Callable[[], None]] = []
        self.cluster = ClusterTable(NodeId(b"node"))
        self.cluster.ask = lambda caller, method, then, *arguments: self.asked.append(then)  # type: ignore[method-assign]
        node: Any = SimpleNamespace(id=b"node")
        for name, pid in ((b"a", 1), (b"b", 2)):
            caller = ProcessRecord(ProcessId(name), "worker", pid, "", JobId(b"job"), "", {}, node)
            self.cluster.callers[caller.id] = caller
        reactor: Any = SimpleNamespace(call_later=lambda seconds, function: self.timers.append(function))
        actors: Any = SimpleNamespace(actor_of={b"b": b"actor"}.get)
        dispatcher = MessageDispatcher(self.cluster, Logger("test"))
        observation: Any = None  # nobody tells of its last calls
        ProcessQueries(dispatcher, self.cluster, Gathering(self.cluster, reactor), actors, observation)
        self.methods = dispatcher.methods


def ask_timeline() -> tuple[Stage, list[Any]]:
    """Return a stage that was asked, and its answers to come: the events, and who was silent."""
    stage = Stage()
    answers: list[Any] = []

    def answered(value: bytes) -> None:
        found = pickle.loads(value)
        answers.append((events_of(found["told"]), found["silent"]))

    stage.methods["timeline"](None).when_done(answered)
    return stage, answers


class NotToBeUnpacked:
    """Says so where a pickled one is unpacked."""

    unpacked = 0

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _unpack, ()


def _unpack() -> None:
    NotToBeUnpacked.unpacked += 1


def test_rows_of_tasks_and_objects_are_passed_on_as_they_came() -> None:
    rows = pickle.dumps([NotToBeUnpacked()])
    stage = Stage()
    answers: list[bytes] = []
    stage.methods["tasks"](None).when_done(answers.append)
    for asked in range(4):  # what has ended, then what has not
        stage.asked[asked](rows if asked % 2 else None)
    assert NotToBeUnpacked.unpacked == 0
    found = pickle.loads(answers[0])
    assert NotToBeUnpacked.unpacked == 2
    place = {"worker_id": b"b".hex(), "worker_pid": 2, "node_id": b"node".hex(), "job_id": b"job".hex()}
    place["actor_id"] = b"actor".hex()
    assert found["ended"] == found["waiting"] == [(place, [None])]
    assert found["silent"] == {b"a": (1, b"node".hex())}


def test_it_is_answered_when_all_have_answered() -> None:
    stage, answers = ask_timeline()
    stage.asked[0](pickle.dumps(["first"]))
    assert answers == []
    stage.asked[1](pickle.dumps(["second"]))
    stage.timers[0]()
    assert answers == [(["first", "second"], {})]


def test_an_answer_that_comes_too_late_does_not_answer_again() -> None:
    stage, answers = ask_timeline()
    stage.asked[0](pickle.dumps(["first"]))
    stage.timers[0]()
    stage.asked[1](pickle.dumps(["second"]))
    assert answers == [(["first"], {b"b": (2, b"node".hex())})]


def test_what_processes_have_told_is_passed_on_as_it_came() -> None:
    told = [pickle.dumps(["first"]), pickle.dumps(["second"])]
    stage = Stage()
    answers: list[dict[str, Any]] = []
    stage.methods["timeline"](None).when_done(lambda value: answers.append(pickle.loads(value)))
    for then, data in zip(stage.asked, told, strict=True):
        then(data)
    assert answers == [{"told": told, "silent": {}}]
