"""A call waits for its arguments, is made where its engine says, and fills in its results."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.definitions import DYNAMIC, STREAMING, CallOptions
from kernel.runtime.execution_context import ExitActor, current_execution
from kernel.testing.faults import wait_until
from kernel_engine.one_process.calls import Call
from kernel_spec.errors import ActorDiedError, GetTimeoutError, TaskError, WorkerDiedError
from kernel_spec.ids import ActorId

SECONDS = 120.0


def fail() -> None:
    raise LookupError("the function's")


def actor_named(name: str) -> Any:
    return SimpleNamespace(id=ActorId(b"actor" + bytes(11)), name=name)


def test_a_call_returns_its_value(runtime: Any) -> None:
    call = runtime.call(1, 2)
    with pytest.raises(GetTimeoutError, match=r"within 0 s: the task work\(\) has not ended"):
        runtime.get([call.result], 0)
    assert call.run(lambda one, two: one + two) is None
    assert runtime.get([call.result], 0) == [3]
    assert call.failure is None and not runtime.open_calls and not runtime.executing


def test_what_it_is_given_and_returns_is_a_copy(runtime: Any) -> None:
    given: list[int] = []
    returned: list[int] = []
    call = runtime.call(given)
    call.run(lambda held: held.append(1) or returned)
    returned.append(2)
    assert given == [] and runtime.get_one(call.result, 0) == []


def test_a_call_of_a_function_has_its_name_and_one_of_a_method_that_of_the_class(runtime: Any) -> None:
    calls = [
        Call(runtime, CallOptions(name="work"), "work", 0, (), {}),
        Call(runtime, CallOptions(name="add"), "Counter.add", 0, (), {}),
    ]
    assert [(call.name, call.method, call.task.name) for call in calls] == [
        ("work", "work", "work"),
        ("Counter.add", "add", "Counter.add"),
    ]


def test_a_call_knows_the_line_of_the_user(runtime: Any) -> None:
    def submit() -> Call:
        return Call(runtime, CallOptions(name="work"), "work", 0, (), {})

    def remote() -> Call:
        return submit()

    call = remote()
    assert call.task.site is not None
    assert call.task.site[0] is test_a_call_knows_the_line_of_the_user.__code__


def test_its_code_knows_which_call_it_is(runtime: Any) -> None:
    call = runtime.call()
    call.run(lambda: (current_execution.get().task, current_execution.get().name))
    assert runtime.get_one(call.result, 0) == (call.id, "work")
    assert current_execution.get().task == b""


def test_several_values_and_none(runtime: Any) -> None:
    two, none = runtime.call(returns=2), runtime.call(returns=0)
    two.run(lambda: ("first", "second"))
    none.run(lambda: None)
    assert runtime.get(two.result, 0) == ["first", "second"] and none.result is None
    wrong = runtime.call(returns=2)
    wrong.run(lambda: (1, 2, 3))
    with pytest.raises(ValueError, match="returned 3 values"):
        runtime.get(wrong.result, 0)


def test_it_begins_once_its_arguments_are_there(runtime: Any) -> None:
    first = runtime.call()
    later = runtime.call(first.result, 1)
    begun: list[str] = []
    later.when_ready(lambda: begun.append("later"))
    runtime.call().when_ready(lambda: begun.append("at once"))
    assert begun == ["at once"]
    first.run(lambda: 10)
    assert begun == ["at once", "later"]
    later.run(lambda one, two: one + two)
    assert runtime.get_one(later.result, 0) == 11


def test_a_thread_may_wait_for_its_arguments(runtime: Any) -> None:
    first = runtime.call()
    later = runtime.call(first.result)
    done = threading.Event()
    threading.Thread(target=lambda: (later.wait(), done.set()), daemon=True).start()
    assert not done.wait(0.01)
    first.run(lambda: 1)
    assert done.wait(SECONDS)


def test_an_argument_that_failed_fails_it_and_it_is_not_made(runtime: Any) -> None:
    first = runtime.call()
    later = runtime.call(first.result)
    first.run(fail)
    made: list[int] = []
    assert later.run(made.append) is None
    assert made == [] and later.failure == first.failure is not None
    with pytest.raises(LookupError, match="the function's"):
        runtime.get_one(later.result, 0)


def test_what_it_raises_is_returned_and_raised_by_its_result(runtime: Any) -> None:
    call = runtime.call()
    error = call.run(fail)
    assert isinstance(error, LookupError)
    with pytest.raises(TaskError, match="the function's") as caught:
        runtime.get_one(call.result, 0)
    assert isinstance(caught.value, LookupError) and caught.value.function_name == "work"
    assert not runtime.executing and runtime.tasks.failed == 1


def test_it_is_made_again_as_often_as_it_may(runtime: Any) -> None:
    attempts: list[int] = []

    def second_time() -> str:
        attempts.append(current_execution.get().attempt)
        if len(attempts) == 1:
            fail()
        return "second"

    call = runtime.call(retries=1, retry_exceptions=(LookupError,))
    assert call.run(second_time) is None
    assert runtime.get_one(call.result, 0) == "second" and attempts == [0, 1]
    for retries, kinds, expected in ((1, True, 2), (0, True, 1), (1, (KeyError,), 1), (1, False, 1)):
        count: list[int] = []
        call = runtime.call(retries=retries, retry_exceptions=kinds)
        assert isinstance(call.run(lambda count=count: (count.append(1), fail())), LookupError)
        assert len(count) == expected
    assert not runtime.open_calls


@pytest.mark.parametrize("error", [ExitActor(), SystemExit(3)], ids=["exit_actor", "sys.exit"])
def test_a_method_that_ends_its_actor_says_so(runtime: Any, error: BaseException) -> None:
    def leave() -> None:
        raise error

    actor = actor_named("Counter")
    call = Call(runtime, CallOptions(name="leave"), "Counter.leave", 0, (), {}, actor)
    runtime.begin(call)
    assert call.run(leave) is error
    with pytest.raises(ActorDiedError, match=r"Counter\.leave\(\) has ended its actor") as caught:
        runtime.get_one(call.result, 0)
    assert caught.value.actor_id == actor.id.hex()


def test_a_task_that_exits_does_not_end_its_process(runtime: Any) -> None:
    def leave() -> None:
        raise SystemExit(3)

    call = runtime.call()
    assert isinstance(call.run(leave), SystemExit)
    with pytest.raises(WorkerDiedError, match=r"work\(\) called sys\.exit\(3\)"):
        runtime.get_one(call.result, 0)


def test_a_failure_of_all_calls_of_an_actor_is_one_of_the_actor(runtime: Any) -> None:
    call = Call(runtime, CallOptions(name="__init__"), "Counter.__init__", 0, (), {}, actor_named("Counter"))
    runtime.begin(call)
    error = call.run(fail)
    assert error is not None
    other = runtime.call()
    runtime.break_call(other, call.describe(error, ends_actor=True))
    with pytest.raises(ActorDiedError) as caught:
        runtime.get_one(other.result, 0)
    assert isinstance(caught.value, LookupError)


def test_who_asks_hears_when_nothing_refers_to_the_result_any_more(runtime: Any) -> None:
    call = runtime.call()
    told: list[int] = []
    call.when_dropped(lambda: told.append(1))
    call.run(lambda: None)
    kept = call.result
    del call
    gc.collect()
    runtime.put("anything")
    assert told == []
    del kept
    wait_until(lambda: told == [1], SECONDS, "word of the last reference")
    runtime.put("anything")
    assert told == [1]


def test_a_call_that_is_not_made_lets_go_of_its_arguments(runtime: Any) -> None:
    given = runtime.put("given")
    id = given.binary()
    call = Call(runtime, CallOptions(name="work"), "work", 0, (given,), {})
    del given
    runtime.put("anything")
    assert id in runtime.ownership.objects
    call.drop()
    call.drop()
    assert id not in runtime.ownership.objects


def test_a_generator_yields_references_and_then_ends(runtime: Any) -> None:
    call = runtime.call(returns=STREAMING)
    call.run(lambda: iter("ab"))
    items = [runtime.next_item(call.result, 0) for _ in range(2)]
    assert runtime.get(items, 0) == ["a", "b"]
    with pytest.raises(StopIteration):
        runtime.next_item(call.result, 0)
    assert not runtime.generators.runs
    dynamic = runtime.call(returns=DYNAMIC)
    dynamic.run(lambda: iter("cd"))
    assert runtime.get(list(runtime.get_one(dynamic.result, 0)), 0) == ["c", "d"]


def test_a_generator_that_raises_ends_with_what_raises(runtime: Any) -> None:
    def items() -> Any:
        yield 1
        fail()

    call = runtime.call(returns=STREAMING)
    assert isinstance(call.run(items), LookupError)
    assert runtime.get_one(runtime.next_item(call.result, 0), 0) == 1
    with pytest.raises(LookupError, match="the function's"):
        runtime.get_one(runtime.next_item(call.result, 0), 0)
    no_generator = runtime.call(returns=STREAMING)
    assert isinstance(no_generator.run(lambda: 5), TypeError)


def test_a_generator_waits_for_its_reader_where_it_may_not_be_ahead(runtime: Any) -> None:
    yielded: list[int] = []

    def items() -> Any:
        for number in range(4):
            yielded.append(number)
            yield number

    call = runtime.call(returns=STREAMING, backpressure=2)
    thread = threading.Thread(target=call.run, args=[items], daemon=True)
    thread.start()
    wait_until(
        lambda: yielded == [0, 1] and runtime.generators.runs[call.id].waiter is not None,
        SECONDS,
        "a wait for the reader",
    )
    runtime.next_item(call.result, 0)
    wait_until(lambda: yielded == [0, 1, 2], SECONDS, "another item")
    assert [runtime.get_one(runtime.next_item(call.result, SECONDS), 0) for _ in range(3)] == [1, 2, 3]
    thread.join(SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["closed", "cancelled", "forgotten"])
def test_a_generator_that_nobody_reads_is_closed_in_its_own_thread(runtime: Any, how: str) -> None:
    closed_in: list[int] = []

    def items() -> Any:
        try:
            yield from range(1000)
        finally:
            closed_in.append(threading.get_ident())

    call = runtime.call(returns=STREAMING, backpressure=1)
    thread = threading.Thread(target=call.run, args=[items], daemon=True)
    thread.start()
    runs = runtime.generators.runs
    wait_until(lambda: call.id in runs and runs[call.id].waiter is not None, SECONDS, "a wait for the reader")
    if how == "closed":
        runtime.close_stream(call.result)
    elif how == "cancelled":
        runtime.cancel(call.result.completed, False, False)
    else:
        from kernel.runtime.streams import abandoned

        abandoned.append(call.result)
        runtime.put("anything")
    thread.join(SECONDS)
    assert closed_in == [thread.ident]


def test_a_generator_that_was_cancelled_before_its_first_item_is_closed(runtime: Any) -> None:
    began: list[int] = []
    call = runtime.call(returns=STREAMING)

    def items() -> Any:
        runtime.cancel(call.result.completed, False, False)

        def endless() -> Any:
            while True:
                began.append(1)
                yield 1

        return endless()

    call.run(items)
    assert began == []
