"""How a call's failure arrives: what the kernel says of it as it is, what came out of user code with its story."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.execution_context import ExitActor
from kernel_engine.messages import process_messages as op
from kernel_engine.objects.object_operations import failure_to_raise
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.call_runner import CallRunner
from kernel_spec.errors import (
    ActorDiedError,
    GetTimeoutError,
    KernelError,
    ObjectLostError,
    SessionEndedError,
    TaskError,
    UsageError,
)
from kernel_spec.ids import ProcessId


class Mine(UsageError):
    """An error of the user's own that extends the kernel's."""


class Unpicklable(KernelError):
    """The same, and it can't leave its process."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        raise TypeError("never")


def view_of_a_store(*arguments: Any) -> Any:
    """A plugin's code."""
    raise ObjectLostError("the argument is gone")


@pytest.fixture
def runner() -> CallRunner:
    runtime: Any = SimpleNamespace(
        identity=SimpleNamespace(id=b"process1", node=b"node"),
        io=SimpleNamespace(send=None, identity=SimpleNamespace(gateway="")),
        serializer=ValueSerializer(),
        store=SimpleNamespace(view=view_of_a_store),
        ownership=SimpleNamespace(objects={}),
    )
    return CallRunner(runtime)


def arrived(runner: CallRunner, call: Callable[[], Any], ends_actor: bool = False) -> tuple[int, BaseException]:
    """Return the kind of failure, and what is raised where the result is asked for."""
    try:
        call()
    except BaseException as error:
        kind, data = runner.describe_failure("task", error, ends_actor)
        return kind, failure_to_raise(kind, data)
    raise AssertionError("it did not fail")


def raise_(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [Mine("x"), GetTimeoutError("x"), ActorDiedError("x"), Unpicklable("x")])
def test_whatever_user_code_raises_tells_its_story(runner: CallRunner, error: KernelError) -> None:
    kind, raised = arrived(runner, lambda: raise_(error))
    assert kind == op.USER_ERROR
    assert isinstance(raised, TaskError)
    assert isinstance(raised, type(error)) or type(error) is Unpicklable
    assert str(raised).startswith(f"task() raised {type(error).__qualname__}: x")
    assert "in task()" in "".join(raised.__notes__)  # type: ignore[attr-defined]
    assert raised.__traceback__ is not None


def test_what_the_kernel_raises_where_user_code_calls_it_tells_its_story(runner: CallRunner) -> None:
    kind, raised = arrived(runner, lambda: ValueSerializer().dumps(threading.Lock()))
    assert kind == op.USER_ERROR
    assert isinstance(raised, TaskError) and isinstance(raised, TypeError)


def test_a_lost_argument_is_the_kernels_own_word(runner: CallRunner) -> None:
    with pytest.raises(ObjectLostError) as caught:
        runner.arguments_from(ProcessId(b"caller"), "", (0, b"object", (100, ())), ())
    error = caught.value.with_traceback(caught.tb.tb_next)  # without this test, where an executor would be
    assert runner.describe_failure("task", error)[0] == op.SYSTEM_ERROR


def test_what_nobody_raised_is_the_kernels_own_word(runner: CallRunner) -> None:
    kind, data = runner.describe_failure("task", ActorDiedError("it left"))
    assert kind == op.SYSTEM_ERROR
    assert type(failure_to_raise(kind, data)) is ActorDiedError


@pytest.mark.parametrize(("error", "how"), [(ExitActor(), r"exit_actor\(\)"), (SystemExit(3), r"sys\.exit\(3\)")])
def test_a_constructor_that_ends_its_process_does_not_end_who_asks(
    runner: CallRunner, error: BaseException, how: str
) -> None:
    kind, raised = arrived(runner, lambda: raise_(error), ends_actor=True)
    assert kind == op.SYSTEM_ERROR
    with pytest.raises(ActorDiedError, match=rf"task\(\) called {how}"):
        raise raised


def test_an_error_of_the_kernel_in_a_constructor_ends_the_actor(runner: CallRunner) -> None:
    _, raised = arrived(runner, lambda: raise_(GetTimeoutError("x")), ends_actor=True)
    assert isinstance(raised, ActorDiedError) and isinstance(raised, GetTimeoutError) and isinstance(raised, TaskError)


@pytest.mark.parametrize("agent_lives", [True, False])
def test_what_fails_because_the_agent_died_is_not_told_as_a_failure(runner: CallRunner, agent_lives: bool) -> None:
    sent: list[Any] = []
    runner._send = lambda connection, message: sent.append(message)  # type: ignore[method-assign]
    runner._runtime.io.agent = SimpleNamespace(closed=not agent_lives)  # type: ignore[assignment]
    runner.send_failure(SimpleNamespace(), b"task", "f", SessionEndedError("its node agent died"))  # type: ignore[arg-type]
    assert [message[:2] for message in sent] == ([(op.FAILED, b"task")] if agent_lives else [])
