"""Calls that have not ended can be cancelled, counted and failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.current import find_runtime
from kernel_engine.failures.failures import failure_of
from kernel_spec.errors import ActorDiedError, PendingCallsLimitError, SessionEndedError, TaskCancelledError
from kernel_spec.ids import ActorId


def actor_named(name: str) -> Any:
    return SimpleNamespace(id=ActorId(b"actor" + bytes(11)), name=name)


def test_one_that_waits_and_is_cancelled_is_never_made(runtime: Any) -> None:
    call, other = runtime.call(), runtime.call()
    runtime.cancel(call.result, False, False)
    made: list[int] = []
    assert call.run(lambda: made.append(1)) is None and made == []
    with pytest.raises(TaskCancelledError, match=r"task work\(\)"):
        runtime.get_one(call.result, 0)
    other.run(lambda: "other")
    assert runtime.get_one(other.result, 0) == "other"


def test_one_that_runs_and_is_cancelled_may_ask_and_what_it_returns_is_dropped(runtime: Any) -> None:
    asked: list[bool] = []
    call = runtime.call()

    def work() -> str:
        asked.append(runtime.is_cancelled(call.id))
        runtime.cancel(call.result, False, False)
        asked.append(runtime.is_cancelled(call.id))
        return "too late"

    call.run(work)
    assert asked == [False, True] and not runtime.is_cancelled(call.id)
    with pytest.raises(TaskCancelledError):
        runtime.get_one(call.result, 0)


def test_one_that_was_cancelled_is_not_tried_again(runtime: Any) -> None:
    call = runtime.call(retries=5, retry_exceptions=True)
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        runtime.cancel(call.result, False, False)
        raise LookupError

    call.run(work)
    assert attempts == [1]


def test_one_that_is_tried_again_can_be_cancelled(runtime: Any) -> None:
    call = runtime.call(retries=5, retry_exceptions=True)
    attempts: list[int] = []

    def work() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            runtime.cancel(call.result, False, False)
        raise LookupError

    call.run(work)
    assert len(attempts) == 2
    with pytest.raises(TaskCancelledError):
        runtime.get_one(call.result, 0)


def test_what_has_ended_is_not_cancelled(runtime: Any) -> None:
    call = runtime.call()
    call.run(lambda: "there")
    runtime.cancel(call.result, False, True)
    assert runtime.get_one(call.result, 0) == "there"


@pytest.mark.parametrize("recursive", [True, False])
def test_what_a_call_has_submitted_is_cancelled_with_it(runtime: Any, recursive: bool) -> None:
    inner: list[Any] = []
    call = runtime.call()

    def work() -> None:
        inner.append(runtime.call())
        runtime.cancel(call.result, False, recursive)

    call.run(work)
    assert (inner[0].failure is not None) == recursive


def test_the_calls_of_an_actor_are_counted_and_fail_together(runtime: Any) -> None:
    actor, other = actor_named("Counter"), actor_named("Counter")
    calls = [runtime.call(actor=actor) for _ in range(2)]
    beside = runtime.call(actor=other)
    runtime.check_limit(actor, 3)
    words = r"^Counter \(6163746f7200\) has 2 calls waiting, and max_pending_calls=2; get some results before"
    with pytest.raises(PendingCallsLimitError, match=words):
        runtime.check_limit(actor, 2)
    runtime.break_calls(actor, failure_of(ActorDiedError("it is dead")))
    for call in calls:
        with pytest.raises(ActorDiedError, match="it is dead"):
            runtime.get_one(call.result, 0)
    runtime.check_limit(actor, 1)
    assert beside.failure is None


def test_one_that_is_broken_twice_keeps_its_first_failure(runtime: Any) -> None:
    call = runtime.call()
    for word in ("first", "second"):
        runtime.break_call(call, failure_of(ActorDiedError(word)))
    with pytest.raises(ActorDiedError, match="first"):
        runtime.get_one(call.result, 0)
    assert runtime.tasks.failed == 1


def test_at_the_end_of_the_session_all_fail_and_none_begins(runtime: Any) -> None:
    call = runtime.call()
    assert find_runtime() is runtime
    runtime.shutdown()
    assert find_runtime() is None
    with pytest.raises(SessionEndedError, match="the session was shut down"):
        runtime.objects.load(call.result._entry)
    assert call.task.cancelled
    with pytest.raises(SessionEndedError, match="the session was shut down"):
        runtime.call()
