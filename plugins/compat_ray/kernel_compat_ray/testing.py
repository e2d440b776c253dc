"""Helpers of `ray._private.test_utils` that programs outside of Ray use, too."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from kernel_compat_ray.decorator import remote


@remote(num_cpus=0)
class SignalActor:
    """Lets callers of `wait` wait for a call of `send`."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()
        self.waiting = 0

    async def send(self, clear: bool = False) -> None:
        """Let all waiting calls go on. With `clear`, later ones wait again."""
        self.sent.set()
        if clear:
            self.sent.clear()

    async def wait(self, should_wait: bool = True) -> None:
        """Wait for `send`."""
        if should_wait:
            self.waiting += 1
            await self.sent.wait()
            self.waiting -= 1

    async def cur_num_waiters(self) -> int:
        """Return how many wait."""
        return self.waiting


@remote(num_cpus=0)
class Semaphore:
    """A semaphore in an actor."""

    def __init__(self, value: int = 1) -> None:
        self.semaphore = asyncio.Semaphore(value=value)

    async def acquire(self) -> None:
        """Take one, waiting for it."""
        await self.semaphore.acquire()

    async def release(self) -> None:
        """Give one back."""
        self.semaphore.release()

    async def locked(self) -> bool:
        """Return whether all are taken."""
        return self.semaphore.locked()


def wait_for_condition(
    condition_predictor: Callable[..., Any], timeout: float = 10, retry_interval_ms: float = 100, **arguments: Any
) -> None:
    """Return when the predicate is true; raises RuntimeError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    trouble = ""
    while time.monotonic() < deadline:
        try:
            if condition_predictor(**arguments):
                return
            trouble = ""
        except Exception as error:
            trouble = f"; it raised {error!r}"
        time.sleep(retry_interval_ms / 1000)
    raise RuntimeError(f"the condition wasn't met within {timeout} s{trouble}")


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Return when a process is gone."""
    wait_for_condition(lambda: not os.path.exists(f"/proc/{pid}"), timeout)


def run_string_as_driver(driver_script: str, env: dict[str, str] | None = None, encode: str = "utf-8") -> str:
    """Run a program of its own, and return what it printed; raises CalledProcessError, with that, when it fails."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    done = subprocess.run(
        [sys.executable, "-"],
        input=driver_script.encode(encode),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    text = done.stdout.decode(encode)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, f"python -: {text}", text, text)
    return text
