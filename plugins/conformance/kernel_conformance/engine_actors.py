"""The conformance tests of engines about actors."""

from __future__ import annotations

import asyncio
import gc
import traceback
from typing import Any

import kernel
from kernel_conformance.engine_suite import EngineSuite, Gate, expect, gates, raised_by, until, value_of
from kernel_spec.errors import ActorDiedError, ActorNotFoundError, KernelError, NameTakenError, TaskError


class Counter:
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        if start < 0:
            raise LookupError("no counter begins below nothing")
        self.count = start

    def add(self, number: int = 1) -> int:
        """Add a number."""
        self.count += number
        return self.count

    def both(self) -> tuple[int, str]:
        """Return two values."""
        return self.count, "counted"

    def fail(self) -> None:
        """Raise."""
        raise LookupError("this line is the actor's")

    def wait(self, arrived: Gate, gate: Gate) -> None:
        """Say that the call runs, and wait."""
        arrived.open()
        gate.wait()

    def leave(self) -> None:
        """End this actor."""
        kernel.exit_actor()

    def who(self) -> Any:
        """Return the actor's id, and a handle to it."""
        context = kernel.get_runtime_context()
        return context.get_actor_id(), context.current_actor


class Meeting:
    """Two calls of it end only together."""

    def __init__(self) -> None:
        self.there = 0

    async def meet(self) -> int:
        """Return when two are there."""
        self.there += 1
        while self.there < 2:
            await asyncio.sleep(0.001)
        return self.there


class EngineActors(EngineSuite):
    """Tests of actors."""

    def test_an_actor_keeps_its_state_and_the_order_of_calls(self) -> None:
        if not self.actors:
            return
        with self.session(), gates("gate") as (gate,):
            counter = kernel.remote(Counter).remote(5)
            assert value_of([counter.add.remote() for _ in range(50)]) == list(range(6, 56))
            if not self.concurrent:
                gate.open()
            late = kernel.remote(lambda: gate.wait() or 10).remote()
            refs = [counter.add.remote(late), counter.add.remote(1)]
            gate.open()
            assert value_of(refs) == [65, 66], "a call has overtaken one whose argument came late"
            other = kernel.remote(Counter).remote()
            assert value_of(other.add.remote()) == 1

    def test_methods_return_several_values(self) -> None:
        if not self.actors:
            return
        with self.session():
            both = kernel.remote(Counter).remote(3).both.options(num_returns=2).remote()
            assert value_of(both) == [3, "counted"]

    def test_a_method_that_raises_leaves_the_actor_alive(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).remote()
            error = expect(LookupError, value_of, counter.fail.remote())
            assert isinstance(error, TaskError), f"{error!r} is no TaskError"
            assert 'raise LookupError("this line is the actor\'s")' in "".join(traceback.format_exception(error))
            assert value_of(counter.add.remote()) == 1

    def test_a_constructor_that_raises_fails_all_calls(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).remote(-1)
            for _ in range(2):
                error = expect(ActorDiedError, value_of, counter.add.remote())
                assert isinstance(error, LookupError), f"{error!r} does not say what the constructor raised"

    def test_handles_travel(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).remote()
            use = kernel.remote(lambda held: kernel.get(held["it"].add.remote(7)))
            assert value_of(use.remote({"it": counter})) == 7
            assert value_of(counter.add.remote()) == 8
            made = kernel.remote(lambda: kernel.remote(Counter).remote(20)).remote()
            assert value_of(value_of(made).add.remote()) == 21

    def test_code_of_an_actor_knows_it(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).remote()
            id, handle = value_of(counter.who.remote())
            assert handle == counter and id == counter._actor_id.hex()
            assert kernel.get_runtime_context().get_actor_id() is None

    def test_an_actor_is_found_by_its_name(self) -> None:
        if not self.actors:
            return
        with self.session(namespace="here"):
            named = kernel.remote(Counter).options(name="counter")
            counter = named.remote(1)
            assert value_of(kernel.get_actor("counter").add.remote()) == 2
            assert value_of(kernel.remote(lambda: kernel.get(kernel.get_actor("counter").add.remote())).remote()) == 3
            expect(NameTakenError, named.remote)
            assert value_of(named.options(get_if_exists=True).remote(100).add.remote()) == 4
            assert kernel.list_named_actors() == ["counter"]
            assert kernel.list_named_actors(all_namespaces=True) == [{"namespace": "here", "name": "counter"}]
            expect(ActorNotFoundError, kernel.get_actor, "counter", "elsewhere")
            elsewhere = named.options(namespace="elsewhere").remote(50)
            assert value_of(kernel.get_actor("counter", "elsewhere").add.remote()) == 51
            assert value_of([counter.add.remote(), elsewhere.add.remote()]) == [5, 52]

    def test_an_actor_that_is_killed_answers_no_more(self) -> None:
        if not self.actors:
            return
        with self.session(), gates("arrived", "gate") as (arrived, gate):
            counter = kernel.remote(Counter).options(name="counter").remote()
            waiting = []
            if self.concurrent:
                waiting = [counter.wait.remote(arrived, gate), counter.add.remote()]
                until(arrived.is_open, "a call does not begin")
            kernel.kill(counter)
            for ref in (*waiting, counter.add.remote()):
                expect(ActorDiedError, value_of, ref)
            until(lambda: kernel.list_named_actors() == [], "a killed actor keeps its name")
            gate.open()

    def test_an_actor_ends_with_its_last_handle_after_its_calls(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).options(name="counter").remote()
            refs = [counter.add.remote() for _ in range(5)]
            del counter
            gc.collect()
            assert value_of(refs) == [1, 2, 3, 4, 5]
            until(lambda: kernel.list_named_actors() == [], "an actor without handles lives on")

    def test_a_detached_actor_needs_no_handle(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).options(name="counter", lifetime="detached").remote(1)
            assert value_of(counter.add.remote()) == 2
            del counter
            gc.collect()
            assert value_of(kernel.get_actor("counter").add.remote()) == 3

    def test_an_actor_can_leave(self) -> None:
        if not self.actors:
            return
        with self.session():
            counter = kernel.remote(Counter).remote()
            expect(ActorDiedError, value_of, counter.leave.remote())
            expect(ActorDiedError, value_of, counter.add.remote())

    def test_coroutines_of_an_actor_run_beside_each_other_or_are_refused(self) -> None:
        if not self.actors:
            return
        with self.session():
            if self.async_actors:
                meeting = kernel.remote(Meeting).remote()
                assert value_of([meeting.meet.remote(), meeting.meet.remote()]) == [2, 2]
            else:
                _names_it(raised_by(kernel.remote(Meeting).remote), "async")

    def test_threads_of_an_actor_run_beside_each_other_or_are_refused(self) -> None:
        if not self.actors:
            return
        with self.session(), gates("one", "other") as (one, other):
            parallel = kernel.remote(Counter).options(max_concurrency=2)
            if self.concurrent_actors:
                counter = parallel.remote()
                assert value_of([counter.wait.remote(one, other), counter.wait.remote(other, one)]) == [None, None]
            else:
                _names_it(raised_by(parallel.remote), "max_concurrency")

    def test_an_actor_starts_again_or_that_is_refused(self) -> None:
        if not self.actors:
            return
        with self.session():
            lasting = kernel.remote(Counter).options(max_restarts=1, max_task_retries=5)
            if not self.restarts:
                _names_it(raised_by(lasting.remote), "max_restarts")
                return
            counter = lasting.remote(5)
            assert value_of(counter.add.remote()) == 6
            kernel.kill(counter, no_restart=False)
            assert value_of(counter.add.remote()) == 6, "an actor that has started again begins anew"
            kernel.kill(counter, no_restart=False)
            expect(ActorDiedError, value_of, counter.add.remote())
            other = lasting.remote()
            assert value_of(other.add.remote()) == 1
            kernel.kill(other)
            expect(ActorDiedError, value_of, other.add.remote())


def _names_it(error: BaseException | None, word: str) -> None:
    assert isinstance(error, KernelError), f"what the engine lacks should have been refused; what came is {error!r}"
    assert word in str(error), f"the refusal does not name {word}: {error}"
