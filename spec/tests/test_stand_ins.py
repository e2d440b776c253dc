"""A class that stands for an error is what this process makes, and nothing that another process has to know."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kernel_spec.errors import (
    ActorDiedError,
    ActorError,
    ActorOutOfMemoryError,
    GetTimeoutError,
    KernelError,
    OutOfMemoryError,
    WorkerDiedError,
)
from kernel_spec.stand_ins import forget_stand_ins, stand_in, stands_for


class Root(KernelError):
    pass


class Crashed(Root, WorkerDiedError):
    pass


class OfActor(Root, ActorError):
    pass


class Dead(OfActor, ActorDiedError):
    pass


class Late(Root, GetTimeoutError):
    pass


class Mine(ActorError):
    """Of a library: it is pickled in a way of its own."""

    def __init__(self, text: str, shard: str) -> None:
        super().__init__(text)
        self.shard = shard

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (str(self), self.shard)


@pytest.fixture(autouse=True)
def stand_ins() -> Iterator[None]:
    for error, cls in (
        (KernelError, Root),
        (WorkerDiedError, Crashed),
        (ActorError, OfActor),
        (ActorDiedError, Dead),
        (GetTimeoutError, Late),
    ):
        stands_for(error, cls)
    yield
    forget_stand_ins()


@pytest.mark.parametrize(
    ("made", "cls"), [(WorkerDiedError, Crashed), (ActorDiedError, Dead), (GetTimeoutError, Late), (KernelError, Root)]
)
def test_an_error_is_made_of_its_stand_in(made: type[KernelError], cls: type[KernelError]) -> None:
    error = made("text")
    assert type(error) is cls and str(error) == "text"


def test_what_is_below_is_of_both_families() -> None:
    error = ActorOutOfMemoryError("text", actor_id="ac1d")
    assert isinstance(error, (Dead, OfActor)) and isinstance(error, Root) and isinstance(error, MemoryError)
    assert type(error).__name__ == "ActorOutOfMemoryError" and error.actor_id == "ac1d"
    assert isinstance(OutOfMemoryError("x"), Root) and not isinstance(OutOfMemoryError("x"), OfActor)
    assert isinstance(Mine("x", "s"), OfActor)


@pytest.mark.parametrize("error", [WorkerDiedError("text"), ActorDiedError("text", actor_id="ac1d")])
def test_another_process_gets_what_it_knows(error: KernelError) -> None:
    made = type(error)("text", **vars(error))
    program = "import pickle, sys; e = pickle.load(sys.stdin.buffer); print(type(e).__name__, e, vars(e))"
    shown = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(made), capture_output=True, check=True
    ).stdout.decode()
    assert shown.strip() == f"{type(error).__name__} text {vars(error)}"


@pytest.mark.parametrize(
    "make", [lambda: WorkerDiedError("x"), lambda: Mine("x", "s"), lambda: ActorOutOfMemoryError("x"), lambda: Dead()]
)
def test_here_it_comes_back_as_it_was(make: object) -> None:
    error = make()  # type: ignore[operator]
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error) and again.args == error.args


def test_without_stand_ins_all_is_as_before() -> None:
    forget_stand_ins()
    assert type(WorkerDiedError("x")) is WorkerDiedError is stand_in(WorkerDiedError)


def test_what_is_no_subclass_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Crashed can't stand for ActorError: it is not a subclass of it$"):
        stands_for(ActorError, Crashed)


class Ranked(KernelError, TimeoutError):
    def __init__(self, message: str, ranks: tuple[int, ...]) -> None:
        super().__init__(message)
        self.ranks = ranks


def test_what_is_an_error_of_the_system_says_what_it_was_given() -> None:
    forget_stand_ins()
    for error in (Ranked("rank 1 did not come", (1,)), GetTimeoutError("rank 1 did not come")):
        assert str(error) == "rank 1 did not come" and error.args == ("rank 1 did not come",)
        assert isinstance(error, TimeoutError) and error.errno is None
