"""Ctrl-C during an experiment: the first one is counted instead of raised."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class TrialInterrupts:
    """Counts SIGINTs during a `with` block. The second and later ones raise KeyboardInterrupt.

    In threads other than the main one `count` stays 0.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> TrialInterrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
