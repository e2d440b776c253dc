"""Tracebacks for users: their own first line first, and the standard library's lines only below it."""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable, Iterator

import pytest
from kernel_serve.errors import DeploymentError, said_by
from kernel_serve.replica.user_code import UserCode
from kernel_serve.tracebacks import told_from_the_user, user_traceback

import kernel
from kernel_spec.errors import TaskError


def reads() -> None:
    json.loads("no json")


class Reads:
    async def __init__(self) -> None:
        await asyncio.to_thread(reads)


def error_of(work: object) -> BaseException:
    """Return what `work` raises, without the frame that stands here."""
    with pytest.raises((ValueError, DeploymentError)) as raised:
        asyncio.run(work)  # type: ignore[arg-type]
    assert raised.value.__traceback__ is not None
    return raised.value.with_traceback(raised.value.__traceback__.tb_next)


def test_what_led_to_the_user_s_line_is_left_out_and_what_it_called_is_not() -> None:
    code = UserCode(Reads, (), {}, 1)
    text = user_traceback(error_of(code.in_thread(reads)))
    first, *others = [line for line in text.splitlines() if line.startswith("  File")]
    assert __file__ in first and first.endswith("in reads")
    assert [line.rpartition(" ")[2] for line in others] == ["loads", "decode", "raw_decode"]


def test_constructors_and_logs_are_told_the_same_way() -> None:
    error = error_of(UserCode(Reads, (), {}, 1).construct())
    frames = [line for line in user_traceback(error).splitlines() if line.startswith("  File")]
    assert __file__ in frames[0] and frames[0].endswith("in __init__")
    assert not any("kernel_serve" in line for line in frames if __file__ not in line)
    logged = [frame.name for frame in traceback.extract_tb(told_from_the_user(error).__traceback__)]
    assert logged == [line.rpartition(" ")[2] for line in frames]


@pytest.fixture
def local_session() -> Iterator[None]:
    kernel.init(local_mode=True)
    yield
    kernel.shutdown()


def failed(work: Callable[[], None]) -> BaseException:
    """Return the error of a call of an actor that is called like Serve's, and does `work`."""

    class ReplicaActor:
        def start(self) -> None:
            work()

    with pytest.raises(TaskError) as caught:
        kernel.get(kernel.remote(ReplicaActor).remote().start.remote())
    return caught.value


@pytest.mark.usefixtures("local_session")
def test_what_a_replica_raised_is_told_without_the_name_of_its_method() -> None:
    class Odd(Exception):
        """Can't be found by its name."""

        def __reduce__(self) -> str:
            raise TypeError("it stays")

    def raises(cls: type[Exception], cause: Exception | None) -> Callable[[], None]:
        def work() -> None:
            raise cls("no weights") from cause

        return work

    far = failed(raises(Odd, KeyError("weights")))
    near = failed(raises(DeploymentError, KeyError("weights")))
    cut_off = failed(raises(ValueError, None))
    cut_off.cause = None  # type: ignore[attr-defined]
    for error, last in (
        (near, "kernel_serve.errors.DeploymentError: no weights"),
        (far, f"{Odd.__qualname__}: no weights"),
        (cut_off, "TaskError[ValueError]: no weights"),
    ):
        assert str(error).startswith("ReplicaActor.start() raised ")
        assert said_by(error) == "no weights"
        text = user_traceback(error)
        assert last in text and "ReplicaActor.start" not in text
        assert ("KeyError: 'weights'" in text) == (error is not cut_off)


def test_errors_of_serve_need_no_frames_and_its_faults_keep_them() -> None:
    code = UserCode(reads, (), {}, 1)
    with pytest.raises(DeploymentError) as raised:
        code.method("nothing")
    frames = told_from_the_user(raised.value).__traceback__
    assert frames is not None and frames.tb_next is None  # the line above alone
    fault = error_of(UserCode(json.loads, ("no json",), {}, 1).in_thread(json.loads, "no json"))
    assert "in raw_decode" in user_traceback(fault)
