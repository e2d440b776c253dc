"""Wait until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ending_as_interrupt() -> Iterator[None]:
    """Have SIGTERM raise KeyboardInterrupt within, as SIGINT does; container managers send it.

    Signals reach the main thread alone: in other threads nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_forever() -> None:
    """Return after Ctrl-C, or SIGTERM."""
    try:
        with ending_as_interrupt():
            while True:
                time.sleep(3600)
    except KeyboardInterrupt:
        return
