"""Hear from the head that something new waits, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kernel_spec.errors import KernelError

QUESTION_SECONDS, AWAY_SECONDS, APART_SECONDS = 30.0, 1.0, 0.25
"""How long the head waits before it answers anyhow, and a pause where it does not answer, or has just done so.

So the head is asked four times a second at most, however many needs come.
"""


class DemandFollower:
    """Calls `tell()`, from its thread, whenever something waits that did not wait before.

    `wait(known, seconds)` returns another count than `known` as soon as there is one (see `kernel.wait_for_demand`).
    """

    def __init__(self, wait: Callable[[int, float], int], tell: Callable[[], None]) -> None:
        self._wait = wait
        self._tell = tell
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin to listen."""
        threading.Thread(target=self.run, name="demand", daemon=True).start()

    def end(self) -> None:
        """Stop listening: what the head answers from now on is told to nobody."""
        self._ended.set()

    def run(self) -> None:
        """Listen until `end` is called."""
        known = -1
        while not self._ended.is_set():
            try:
                count = self._wait(known, QUESTION_SECONDS)
            except KernelError:  # The head is away, or another one: its count begins anew.
                self._ended.wait(AWAY_SECONDS)
                continue
            if count != known and not self._ended.is_set():
                known = count
                self._tell()
                self._ended.wait(APART_SECONDS)
