"""Calls of a file system that may hang or fail for a moment: limited in time, and repeated."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kernel_spill_fsspec.problems import is_passing

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0

Result = TypeVar("Result")


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Return what `call()` returns; raise TimeoutError when that takes longer than `seconds`.

    A call that hangs is left behind in a thread of its own, so it must not touch memory that its caller may take back.
    """
    outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=run, name="spill-step", daemon=True).start()
    try:
        value, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"it did not answer within {seconds:g} s") from None
    if error is not None:
        raise error
    result: Result = value
    return result


def patiently(seconds: float, call: Callable[[], Result]) -> Result:
    """Return what `call()` returns, repeating it for up to `seconds` while it fails for what may pass."""
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return call()
        except Exception as error:
            if not is_passing(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
