"""Calls that come to an actor whose last handle is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.worker.worker import Worker
from kernel_processes.worker.worker_end import WorkerEnd

REASON = "all handles to it went out of scope"


def test_an_actor_that_ends_after_its_calls_takes_no_more() -> None:
    taken: list[Any] = []
    refused: list[Any] = []
    later: list[Any] = []
    worker: Any = object.__new__(Worker)
    worker._class_name, worker.instance = "Counter", object()
    worker.executor = SimpleNamespace(is_running=True, enqueue=lambda *call: taken.append(call), groups={})
    worker.runner = SimpleNamespace(send_dead=lambda *call: refused.append(call))
    reactor = SimpleNamespace(call_later=lambda seconds, function: later.append(function))
    io = SimpleNamespace(reactor=reactor, handlers={}, methods={})
    ending = worker._ending = WorkerEnd(SimpleNamespace(io=io), worker)  # type: ignore[arg-type]
    call = (op.ACTOR_CALL, b"task", "add", None, None, None, None)

    worker._on_actor_call("caller", call)
    ending.on_exit("agent", packed(op.EndProcess(reason=REASON, drain=True, kindly=True)))  # type: ignore[arg-type]
    worker._on_actor_call("who found it by name", call)
    assert taken == [("caller", call)]
    assert refused == [("who found it by name", b"task", "Counter.add", REASON)]
    assert len(later) == 1, "it ends when the call that runs is over"
