"""Calls that run in the program's threads: interrupts, the timeline, and generators that are put aside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kernel.runtime.definitions import DYNAMIC, STREAMING
from kernel_engine.one_process.generators import AHEAD, iterator_of
from kernel_engine.one_process.place import PlainPlace
from kernel_spec.errors import TaskCancelledError

Ended = list[tuple[BaseException | None, str]]


def run(runtime: Any, call: Any, function: Callable[..., Any]) -> Ended:
    """Run a call in this thread, as local mode does; return what is said of its end."""
    ended: Ended = []
    runtime.calls.run(
        call.task, lambda: (function, "work"), runtime.make_runner(""), runtime.io.channel(), PlainPlace(),
        lambda error, why: ended.append((error, why)),
    )  # fmt: skip
    return ended


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_call_of_nothing_ends(runtime: Any) -> None:
    call = runtime.call(returns=0)
    assert run(runtime, call, lambda: None) == [(None, "")]
    assert not runtime.open_calls and not runtime.calls.threads and not runtime.tasks.running


def test_it_is_known_which_thread_runs_a_call(runtime: Any) -> None:
    call = runtime.call()
    run(runtime, call, lambda: runtime.calls.threads[call.id])
    assert runtime.get_one(call.result, 0) == threading.get_ident()


def test_one_that_was_cancelled_does_not_begin(runtime: Any) -> None:
    call = runtime.call()
    runtime.cancel(call.result, False, False)
    assert run(runtime, call, interrupt) == [(None, "")]


def test_a_users_interrupt_cancels_the_call_and_reaches_the_program(runtime: Any) -> None:
    call = runtime.call()
    with pytest.raises(KeyboardInterrupt):
        run(runtime, call, interrupt)
    with pytest.raises(TaskCancelledError, match=r"work\(\)"):
        runtime.get_one(call.result, 0)
    runtime.calls.raise_interrupt()  # once


def test_an_interrupt_that_cancels_ends_the_call_alone(runtime: Any) -> None:
    call = runtime.call()
    runtime.calls.cancelled.add(call.id)
    ((error, why),) = run(runtime, call, interrupt)
    assert isinstance(error, KeyboardInterrupt) and why == ""
    assert not runtime.calls.cancelled
    with pytest.raises(TaskCancelledError):
        runtime.get_one(call.result, 0)


def test_an_interrupt_of_another_thread_that_nobody_asked_for_is_an_error_of_the_call(runtime: Any) -> None:
    call = runtime.call()
    thread = threading.Thread(target=run, args=[runtime, call, interrupt], daemon=True)
    thread.start()
    thread.join(120)
    assert call.failure is not None
    runtime.calls.raise_interrupt()
    with pytest.raises(BaseException) as caught:
        runtime.get_one(call.result, 0)
    assert not isinstance(caught.value, TaskCancelledError)


def test_calls_stand_on_the_timeline(runtime: Any) -> None:
    run(runtime, runtime.call(), lambda: 1)
    failed = runtime.call()
    run(runtime, failed, lambda: 1 / 0)
    events = runtime.trace.events()
    assert [event["args"].get("failed") for event in events] == [None, True], events


def test_a_generator_is_put_aside_ahead_of_its_reader_and_goes_on_when_it_is_wanted(runtime: Any) -> None:
    aside: list[bool] = []
    runtime.generators.when_aside = lambda place, put: aside.append(put)
    yielded: list[int] = []

    def items() -> Any:
        for number in range(AHEAD + 2):
            yielded.append(number)
            yield number

    call = runtime.call(returns=STREAMING)
    ended = run(runtime, call, items)
    assert ended == [] and len(yielded) == AHEAD and aside == [True]
    assert call.id not in runtime.calls.threads
    for _ in range(AHEAD):
        runtime.next_item(call.result, 0)
    runtime.generators.wanted(call.id)
    assert ended == [(None, "")] and len(yielded) == AHEAD + 2 and aside == [True, False]


def test_a_generator_that_was_put_aside_is_closed_with_its_stream(runtime: Any) -> None:
    closed: list[int] = []

    def items() -> Any:
        try:
            yield from range(10)
        finally:
            closed.append(1)

    call = runtime.call(returns=STREAMING, backpressure=1)
    ended = run(runtime, call, items)
    assert closed == [] and not runtime.generators.advance(runtime.generators.runs[call.id], 1)
    runtime.close_stream(call.result)
    assert closed == [1] and ended == [(None, "")] and not runtime.generators.runs


def test_who_asks_hears_once_that_items_were_taken(runtime: Any) -> None:
    call = runtime.call(returns=STREAMING, backpressure=2)
    run(runtime, call, lambda: iter("abcd"))
    told: list[int] = []
    runtime.generators.when_taken(call.id, lambda: told.append(1))
    for _ in range(2):
        runtime.next_item(call.result, 0)
    assert told == [1]
    work = runtime.generators.runs[call.id]
    assert runtime.generators.advance(work, 2) and not work.ended
    assert runtime.generators.advance(work, 0) and work.ended
    assert not runtime.generators.advance(work, 0)


def test_at_the_end_of_the_session_streams_end(runtime: Any) -> None:
    call = runtime.call(returns=STREAMING, backpressure=1)
    run(runtime, call, lambda: iter("ab"))
    with runtime.lock:
        runtime.generators.end_all()
    assert call.result.finished and not runtime.generators.runs


@pytest.mark.parametrize(("returns", "word"), [(DYNAMIC, "dynamic"), (STREAMING, "streaming")])
def test_what_is_no_generator_is_refused(returns: int, word: str) -> None:
    words = rf"^work\(\) has num_returns='{word}' and must return a generator, but returned a int$"
    with pytest.raises(TypeError, match=words):
        iterator_of(5, "work", returns)
    assert list(iterator_of([1, 2], "work", returns)) == [1, 2]
