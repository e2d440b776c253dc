"""Workers without work end when they are asked to, unless somebody still needs what they own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kernel
from kernel.runtime.current import get_runtime
from kernel.testing.faults import wait_until
from kernel.testing.session import RunningSession, running_session
from kernel_processes.system.processes import is_alive

SECONDS = 120.0


@pytest.fixture
def session() -> Iterator[RunningSession]:
    with running_session() as found:
        yield found


def retire_when(flag: str) -> None:
    """Have this worker asked to end, as its agent does with idle ones, again and again while `flag` exists."""
    io = get_runtime().io

    def tell() -> None:
        while True:
            time.sleep(0.02)
            if os.path.exists(flag):
                with io.lock:
                    io.methods["retire"]()

    threading.Thread(target=tell, daemon=True).start()


def idle_workers() -> list[int]:
    return [worker["pid"] for worker in get_runtime().query("workers") if worker["state"] == "idle"]


@kernel.remote(max_retries=0)
def idle(flag: str) -> int:
    retire_when(flag)
    return os.getpid()


@kernel.remote(max_retries=0)
def own(flag: str) -> tuple[int, list]:
    retire_when(flag)
    return os.getpid(), [kernel.put(np.ones(50_000)), kernel.put("small")]


def test_an_idle_worker_retires(session: RunningSession, tmp_path: Path) -> None:
    flag = tmp_path / "retire"
    worker = kernel.get(idle.remote(str(flag)), timeout=SECONDS)
    wait_until(lambda: worker in idle_workers(), SECONDS, "the end of its lease")
    flag.touch()
    wait_until(lambda: not is_alive(worker), SECONDS, "the worker's end")
    flag.unlink()
    another = idle.options(max_retries=3).remote(str(flag))  # the agent, which did not ask, may not know yet
    assert kernel.get(another, timeout=SECONDS) != worker, "another takes its place"
    assert session.log() == ""


def test_a_worker_that_owns_what_others_need_stays(session: RunningSession, tmp_path: Path) -> None:
    flag = tmp_path / "retire"
    worker, refs = kernel.get(own.remote(str(flag)), timeout=SECONDS)
    wait_until(lambda: worker in idle_workers(), SECONDS, "the end of its lease")
    flag.touch()
    with pytest.raises(AssertionError, match="did not happen"):
        wait_until(lambda: not is_alive(worker), 0.5, "its end")
    big, small = kernel.get(refs, timeout=SECONDS)
    assert big.sum() == 50_000 and small == "small"
    del big, refs
    wait_until(lambda: not is_alive(worker), SECONDS, "the worker's end once nobody needs what it owned")
