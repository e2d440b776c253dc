"""The conformance tests of engines about tasks and objects."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
from typing import Any

import kernel
from kernel_conformance.engine_suite import PATIENCE_SECONDS, EngineSuite, Gate, expect, gates, until, value_of
from kernel_spec.errors import (
    ArgumentError,
    GetTimeoutError,
    SerializationError,
    TaskCancelledError,
    TaskError,
)


def add(one: Any, other: Any = 0) -> Any:
    """Add two values."""
    return one + other


def fail() -> None:
    """Raise what a user's code raises."""
    raise LookupError("this line is the user's")


def wait_at(gate: Gate, value: Any = None) -> Any:
    """Return `value` once a gate is open."""
    gate.wait()
    return value


def pass_through(arrived: Gate, gate: Gate, interrupted: Gate) -> None:
    """Wait at a gate, and tell of an interruption."""
    try:
        arrived.open()  # from here on the interruption may come
        gate.wait()
    except KeyboardInterrupt:
        interrupted.open()
        raise


class EngineTasks(EngineSuite):
    """Tests of tasks and objects."""

    # -- calls -----------------------------------------------------------------------------------------------------

    def test_a_task_returns_its_value(self) -> None:
        with self.session():
            task = kernel.remote(add)
            assert value_of(task.remote(1, other=2)) == 3
            assert value_of([task.remote(number, number) for number in range(50)]) == list(range(0, 100, 2))

    def test_a_task_returns_several_values_or_none(self) -> None:
        with self.session():
            first, second = kernel.remote(num_returns=2)(lambda: ("first", "second")).remote()
            assert value_of([second, first]) == ["second", "first"]
            assert kernel.remote(num_returns=0)(lambda: None).remote() is None
            wrong = kernel.remote(num_returns=2)(lambda: (1, 2, 3)).remote()
            expect(ValueError, value_of, wrong[0])

    def test_references_are_values_as_arguments_and_references_inside_of_them(self) -> None:
        with self.session():
            one, two = kernel.put(1), kernel.remote(add).remote(1, 1)
            assert value_of(kernel.remote(add).remote(one, other=two)) == 3
            inside = kernel.remote(lambda held: kernel.get(held["one"]) + 1)
            assert value_of(inside.remote({"one": one})) == 2
            assert value_of(value_of(kernel.remote(lambda: [kernel.put("made inside")]).remote())[0]) == "made inside"

    def test_tasks_wait_for_tasks_deeper_than_there_are_cpus(self) -> None:
        with self.session():

            @kernel.remote
            def depth(left: int) -> int:
                return kernel.get(depth.remote(left - 1)) + 1 if left else 0

            assert value_of(depth.remote(6)) == 6

    def test_a_function_takes_along_what_it_closes_over(self) -> None:
        with self.session():
            held, number = kernel.put(40), 2
            assert value_of(kernel.remote(lambda: kernel.get(held) + number).remote()) == 42

    def test_code_knows_which_task_it_is(self) -> None:
        with self.session():

            @kernel.remote(name="named")
            def told() -> tuple[Any, ...]:
                context = kernel.get_runtime_context()
                return context.get_task_id(), context.get_task_name(), context.get_node_id()

            ref = told.remote()
            here = kernel.get_runtime_context()
            assert value_of(ref) == (ref.task_id().hex(), "named", here.get_node_id())
            assert here.get_task_id() is None

    # -- failures --------------------------------------------------------------------------------------------------

    def test_an_error_is_the_users_own_with_the_users_line(self) -> None:
        with self.session():
            ref = kernel.remote(fail).remote()
            for _ in range(2):
                error = expect(TaskError, value_of, ref)
                assert isinstance(error, LookupError), f"{error!r} is no error of the user's type"
                text = "".join(traceback.format_exception(error))
                assert 'raise LookupError("this line is the user\'s")' in text, f"the user's line is missing: {text}"
                assert error.function_name == "fail", error.function_name

    def test_an_argument_that_failed_fails_the_task_that_never_runs(self) -> None:
        with self.session(), gates("ran") as (ran,):
            later = kernel.remote(lambda value: ran.open()).remote(kernel.remote(fail).remote())
            expect(LookupError, value_of, later)
            assert not ran.is_open(), "a task ran although its argument failed"

    def test_the_first_failure_ends_a_get_of_many(self) -> None:
        if not self.concurrent:
            return
        with self.session(), gates("gate") as (gate,):
            waits = kernel.remote(wait_at).remote(gate)
            expect(LookupError, value_of, [waits, kernel.remote(fail).remote()])

    def test_what_can_not_be_sent_is_refused_where_it_is_given(self) -> None:
        if not self.isolates:
            return
        with self.session():
            expect(SerializationError, kernel.remote(add).remote, threading.Lock())
            expect(SerializationError, kernel.put, threading.Lock())
            expect(SerializationError, value_of, kernel.remote(threading.Lock).remote())

    def test_a_task_is_tried_again_as_often_as_it_says(self) -> None:
        if not self.retries:
            return
        with self.session(), gates("first") as (first,):

            @kernel.remote(max_retries=1, retry_exceptions=[LookupError])
            def second_time() -> int:
                if not first.is_open():
                    first.open()
                    fail()
                return kernel.get_runtime_context().get_attempt_number()

            assert value_of(second_time.remote()) == 1
            expect(LookupError, value_of, kernel.remote(fail).options(max_retries=1, retry_exceptions=True).remote())

    # -- objects ---------------------------------------------------------------------------------------------------

    def test_what_was_put_is_got_as_it_was(self) -> None:
        with self.session():
            for value in (None, 5, "text", b"x" * 1_000_000, {"a": [1, (2, 3)]}):
                assert value_of(kernel.put(value)) == value
            expect(ArgumentError, kernel.put, kernel.put(1))

    def test_values_are_copies(self) -> None:
        if not self.isolates:
            return
        with self.session():
            value = [1]
            ref = kernel.put(value)
            change = kernel.remote(lambda given: given.append(2))
            value_of(change.remote(value))
            assert value == [1], "a task has changed its caller's list"
            value.append(3)
            assert value_of(ref) == [1], "what was put changed later"
            value_of(ref).append(4)
            assert value_of(ref) == [1], "who got a value has changed it for others"

    def test_an_object_lives_as_long_as_a_reference_to_it_anywhere(self) -> None:
        with self.session():
            box = kernel.put([kernel.put("inner")])
            gc.collect()
            assert value_of(value_of(box)[0]) == "inner"
            holds = kernel.remote(lambda held: held)
            returned = holds.remote([kernel.put("sent")])
            gc.collect()
            assert value_of(value_of(returned)[0]) == "sent"

    # -- waiting ---------------------------------------------------------------------------------------------------

    def test_wait_tells_what_is_ready_in_the_order_given(self) -> None:
        with self.session():
            refs = [kernel.remote(add).remote(number) for number in range(3)]
            assert kernel.wait(refs, num_returns=3, timeout=PATIENCE_SECONDS) == (refs, [])
            assert kernel.wait(refs, num_returns=1) == (refs[:1], refs[1:])
            failed = kernel.remote(fail).remote()
            assert kernel.wait([failed], timeout=PATIENCE_SECONDS) == ([failed], [])

    def test_wait_leaves_out_what_is_not_ready(self) -> None:
        if not self.concurrent:
            return
        with self.session(), gates("gate") as (gate,):
            slow, quick = kernel.remote(wait_at).remote(gate, "slow"), kernel.remote(add).remote(1)
            assert kernel.wait([slow, quick], timeout=PATIENCE_SECONDS) == ([quick], [slow])
            assert kernel.wait([slow], timeout=0) == ([], [slow])
            assert kernel.wait([slow, quick], num_returns=2, timeout=0.01) == ([quick], [slow])
            gate.open()
            assert kernel.wait([slow], timeout=PATIENCE_SECONDS) == ([slow], [])
            assert value_of(slow) == "slow"

    def test_get_ends_when_its_time_is_over(self) -> None:
        if not self.concurrent:
            return
        with self.session(), gates("gate") as (gate,):
            ref = kernel.remote(wait_at).remote(gate, "there")
            dependent = kernel.remote(add).remote(ref, "!")
            for late in (ref, [ref], dependent):
                expect(GetTimeoutError, kernel.get, late, timeout=0.01)
            gate.open()
            assert value_of(dependent) == "there!"

    def test_references_are_futures(self) -> None:
        with self.session():
            assert kernel.remote(add).remote(1, 1).future().result(PATIENCE_SECONDS) == 2
            error = kernel.remote(fail).remote().future().exception(PATIENCE_SECONDS)
            assert isinstance(error, LookupError), error

            async def awaited() -> Any:
                value = await kernel.remote(add).remote(1, 2)
                return value, await asyncio.gather(kernel.remote(fail).remote(), return_exceptions=True)

            value, (failure,) = asyncio.run(asyncio.wait_for(awaited(), PATIENCE_SECONDS))
            assert value == 3 and isinstance(failure, LookupError), (value, failure)

    # -- cancelling ------------------------------------------------------------------------------------------------

    def test_a_task_that_waits_and_is_cancelled_never_runs(self) -> None:
        if not self.concurrent:
            return
        with self.session(num_cpus=1), gates("gate", "ran") as (gate, ran):
            first = kernel.remote(wait_at).remote(gate, "first")
            waiting = [kernel.remote(lambda value: ran.open()).remote(first)]
            if self.limits_cpus:
                waiting.append(kernel.remote(lambda: ran.open()).remote())
            for ref in waiting:
                kernel.cancel(ref)
                expect(TaskCancelledError, value_of, ref)
            gate.open()
            assert value_of(first) == "first"
            assert value_of(kernel.remote(add).remote(1)) == 1
            assert not ran.is_open(), "a task ran that was cancelled before"
            kernel.cancel(first)
            assert value_of(first) == "first"

    def test_a_task_that_runs_is_cancelled(self) -> None:
        if not self.concurrent:
            return
        with self.session(), gates("arrived", "gate", "interrupted") as (arrived, gate, interrupted):
            ref = kernel.remote(pass_through).remote(arrived, gate, interrupted)
            until(arrived.is_open, "a task does not begin")
            kernel.cancel(ref)
            expect(TaskCancelledError, value_of, ref)
            if self.interrupts:
                until(interrupted.is_open, "a running task that was cancelled goes on")
            gate.open()
            assert value_of(kernel.remote(add).remote(1)) == 1
