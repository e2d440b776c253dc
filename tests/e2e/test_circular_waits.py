"""Calls that wait for each other in a ring are found, and the explanation says which waits for which."""

from __future__ import annotations

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
