"""Questions that the head passes on to every process: answered once, with what came in time."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kernel.head.queries import Answers
from kernel.runtime.tracing import events_of


class AskingHead:
    """Two workers that answer when the test says so, and a clock that runs when it says so."""

    def __init__(self) -> None:
        self.handlers: dict[int, Any] = {}
        node = SimpleNamespace(id=b"node")
        self.callers = {
            name: SimpleNamespace(id=name, role="worker", pid=pid, node=node, job=b"job")
            for name, pid in ((b"a", 1), (b"b", 2))
        }
        self.actors = SimpleNamespace(table=SimpleNamespace(actor_of={b"b": b"actor"}.get))
        self.asked: list[Callable[[Any], None]] = []
        self.timers: list[Callable[[], None]] = []
        self.reactor = SimpleNamespace(call_later=lambda seconds, function: self.timers.append(function))

    def ask(self, caller: Any, method: str, then: Callable[[Any], None], *arguments: Any) -> None:
        self.asked.append(then)


def ask_timeline() -> tuple[AskingHead, list[Any]]:
    """Return a head that was asked, and its answers to come: the events, and who was silent."""
    head = AskingHead()
    answers: list[Any] = []

    def answered(value: bytes) -> None:
        found = pickle.loads(value)
        answers.append((events_of(found["told"]), found["silent"]))

    Answers(head).timeline(None).when_done(answered)  # type: ignore[arg-type]
    return head, answers


class NotToBeUnpacked:
    """Says so where a pickled one is unpacked."""

    unpacked = 0

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _unpack, ()


def _unpack() -> None:
    NotToBeUnpacked.unpacked += 1


def test_rows_of_tasks_and_objects_are_passed_on_as_they_came() -> None:
    rows = pickle.dumps([NotToBeUnpacked()])
    head = AskingHead()
    answers: list[bytes] = []
    Answers(head).tasks(None).when_done(answers.append)  # type: ignore[arg-type]
    for asked in range(4):  # what has ended, then what has not
        head.asked[asked](rows if asked % 2 else None)
    assert NotToBeUnpacked.unpacked == 0
    found = pickle.loads(answers[0])
    assert NotToBeUnpacked.unpacked == 2
    place = {"worker_id": b"b".hex(), "worker_pid": 2, "node_id": b"node".hex(), "job_id": b"job".hex()}
    place["actor_id"] = b"actor".hex()
    assert found["ended"] == found["waiting"] == [(place, [None])]
    assert found["silent"] == {b"a": (1, b"node".hex())}


def test_it_is_answered_when_all_have_answered() -> None:
    head, answers = ask_timeline()
    head.asked[0](pickle.dumps(["first"]))
    assert answers == []
    head.asked[1](pickle.dumps(["second"]))
    head.timers[0]()
    assert answers == [(["first", "second"], {})]


def test_an_answer_that_comes_too_late_does_not_answer_again() -> None:
    head, answers = ask_timeline()
    head.asked[0](pickle.dumps(["first"]))
    head.timers[0]()
    head.asked[1](pickle.dumps(["second"]))
    assert answers == [(["first"], {b"b": (2, b"node".hex())})]


def test_what_processes_have_told_is_passed_on_as_it_came() -> None:
    told = [pickle.dumps(["first"]), pickle.dumps(["second"])]
    head = AskingHead()
    answers: list[dict[str, Any]] = []
    Answers(head).timeline(None).when_done(lambda value: answers.append(pickle.loads(value)))  # type: ignore[arg-type]
    for then, data in zip(head.asked, told, strict=True):
        then(data)
    assert answers == [{"told": told, "silent": {}}]
