"""Calls that wait for each other in a ring are found, and the explanation says which waits for which."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import kernel
from kernel.testing.faults import PATIENCE_SECONDS

RING = "these calls wait for each other in a ring, and none can go on: "
pytestmark = pytest.mark.usefixtures("session", "patient_explanations")


@kernel.remote
class Member:
    """An actor that waits for others, or for itself."""

    def meet(self, other: Any) -> None:
        self.other = other

    def quick(self) -> int:
        return 1

    def asks_itself(self) -> Any:
        return kernel.get(kernel.get_runtime_context().current_actor.quick.remote())

    def asks(self) -> Any:
        return kernel.get(self.other.answers.remote())

    def answers(self) -> Any:
        return kernel.get(self.other.quick.remote())

    def fails_in_time(self) -> Any:
        mine = kernel.get_runtime_context().current_actor
        return kernel.get(mine.quick.remote(), timeout=1)


def explained(eventually: Callable[..., Any], ref: Any) -> str:
    """Return what there is to say of `ref` once a ring was found."""
    found: str = eventually(lambda: (said := kernel.explain(ref)).startswith(RING) and said)
    return found


def test_an_actor_that_waits_for_itself(eventually: Callable[..., Any]) -> None:
    actor = Member.remote()
    said = explained(eventually, actor.asks_itself.remote())
    assert "Member.asks_itself() waits for Member.quick(), which is queued behind Member.asks_itself(). Let one" in said
    assert "max_concurrency" in said
    kernel.kill(actor)


def test_the_error_of_a_get_that_runs_out_of_time_says_so() -> None:
    actor = Member.remote()
    with pytest.raises(kernel.exceptions.GetTimeoutError, match=RING + r"Member.fails_in_time\(\) waits for"):
        kernel.get(actor.fails_in_time.remote(), timeout=PATIENCE_SECONDS)


def test_two_actors_that_wait_for_each_other(eventually: Callable[..., Any]) -> None:
    one, other = Member.remote(), Member.remote()
    kernel.get([one.meet.remote(other), other.meet.remote(one)], timeout=PATIENCE_SECONDS)
    said = explained(eventually, one.asks.remote())
    assert "Member.asks() waits for Member.answers(), which waits for Member.quick(), which is queued behind" in said
    kernel.kill(one)
    kernel.kill(other)


def test_tasks_that_wait_for_each_other(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Board:
        def __init__(self) -> None:
            self.refs: dict[str, Any] = {}

        def pin(self, name: str, refs: list[Any]) -> None:
            self.refs[name] = refs

        def find(self, name: str) -> Any:
            return self.refs.get(name)

    def waits_for(board: Any, name: str) -> Any:
        while (found := kernel.get(board.find.remote(name))) is None:
            time.sleep(0.01)
        return kernel.get(found[0])

    @kernel.remote
    def first(board: Any) -> Any:
        return waits_for(board, "second")

    @kernel.remote
    def second(board: Any, third: Any) -> None:
        raise AssertionError("its argument is never there")

    @kernel.remote
    def third(board: Any) -> Any:
        return waits_for(board, "first")

    board = Board.remote()
    ends = third.remote(board)
    refs = {"first": first.remote(board), "second": second.remote(board, ends)}
    for name, ref in refs.items():
        board.pin.remote(name, [ref])
    said = explained(eventually, refs["first"])
    assert "first() waits for second(), which waits for third(), which waits for first()." in said, said
    for ref in (ends, refs["first"]):
        kernel.cancel(ref)


def test_coroutines_that_wait_for_each_other(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Awaiting:
        async def meet(self, other: Any) -> None:
            self.other = other

        async def quick(self) -> int:
            return 1

        async def asks(self) -> Any:
            return await self.other.answers.remote()

        async def answers(self) -> Any:
            return await self.other.quick.remote()

    one, other = Awaiting.options(max_concurrency=1).remote(), Awaiting.remote()
    kernel.get([one.meet.remote(other), other.meet.remote(one)], timeout=PATIENCE_SECONDS)
    said = explained(eventually, one.asks.remote())
    assert "Awaiting.asks() waits for Awaiting.answers(), which waits for Awaiting.quick(), which is queued" in said
    kernel.kill(one)
    kernel.kill(other)


def test_a_coroutine_that_is_free_to_go_on_is_in_no_ring(eventually: Callable[..., Any]) -> None:
    @kernel.remote(concurrency_groups={"io": 1})
    class Free:
        def __init__(self) -> None:
            self.event = asyncio.Event()
            self.waiting = 0

        async def how_many(self) -> int:
            return self.waiting

        async def waits(self) -> int:
            self.waiting += 1
            await self.event.wait()
            return 1

        async def awaits(self) -> Any:
            return await kernel.get_runtime_context().current_actor.waits.remote()

        @kernel.method(concurrency_group="io")
        def blocks(self) -> Any:
            return kernel.get(kernel.get_runtime_context().current_actor.waits.remote())

        async def go_on(self) -> None:
            self.event.set()

    actor = Free.remote()
    calls = [actor.awaits.remote(), actor.blocks.remote()]
    eventually(lambda: kernel.get(actor.how_many.remote()) == 2)
    assert not any(RING in kernel.explain(call) for call in calls)
    kernel.get(actor.go_on.remote(), timeout=PATIENCE_SECONDS)
    assert kernel.get(calls, timeout=PATIENCE_SECONDS) == [1, 1]


def test_constructors_that_wait_for_their_own_actor(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Impatient:
        def __init__(self, other: Any = None) -> None:
            itself = kernel.get_runtime_context().current_actor
            self.quickly = kernel.get(other.asks_of.remote(itself) if other is not None else itself.quick.remote())

        def quick(self) -> int:
            return 1

    @kernel.remote
    class Other:
        def asks_of(self, actor: Any) -> Any:
            return kernel.get(actor.quick.remote())

    alone = Impatient.remote()
    said = explained(eventually, alone.quick.remote())
    assert "Impatient.__init__() waits for Impatient.quick(), which waits for Impatient.__init__()" in said, said
    other = Other.remote()
    pair = Impatient.remote(other)
    said = explained(eventually, pair.quick.remote())
    assert "Impatient.__init__() waits for Other.asks_of(), which waits for Impatient.quick(), which" in said, said
    for actor in (alone, other, pair):
        kernel.kill(actor)


def test_who_waits_for_one_of_several_is_in_no_ring(eventually: Callable[..., Any]) -> None:
    @kernel.remote
    class Picky:
        def picks(self, refs: list[Any]) -> int:
            mine = kernel.get_runtime_context().current_actor.later.remote()
            return len(kernel.wait([mine, *refs], num_returns=1)[0])

        def later(self) -> None:
            pass

    @kernel.remote
    def pauses() -> None:
        time.sleep(600)

    actor, long = Picky.remote(), pauses.remote()
    call = actor.picks.remote([long])
    eventually(lambda: "running" in kernel.explain(call) and "running" in kernel.explain(long))
    assert RING not in kernel.explain(call)
    kernel.cancel(long)
    assert kernel.get(call, timeout=PATIENCE_SECONDS) == 1
