"""Tracebacks as users are told them: their first line first, and the standard library's only below it."""

from __future__ import annotations

import asyncio
import json
import traceback

import pytest
from kernel_serve.errors import DeploymentError
from kernel_serve.replica.user_code import UserCode
from kernel_serve.tracebacks import told_from_the_user, user_traceback


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


def test_errors_of_serve_need_no_frames_and_its_faults_keep_them() -> None:
    code = UserCode(reads, (), {}, 1)
    with pytest.raises(DeploymentError) as raised:
        code.method("nothing")
    frames = told_from_the_user(raised.value).__traceback__
    assert frames is not None and frames.tb_next is None  # the line above alone
    fault = error_of(UserCode(json.loads, ("no json",), {}, 1).in_thread(json.loads, "no json"))
    assert "in raw_decode" in user_traceback(fault)
