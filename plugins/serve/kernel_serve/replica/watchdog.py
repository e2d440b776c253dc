"""Notice that user code blocks the event loop that all requests of its replica need, and say where."""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
import traceback

from kernel_serve.logs import logger

_log = logger()
LONGEST_SECONDS = 1.0
"""The time in seconds after which a loop that does not answer counts as blocked."""
_LIBRARIES = ("/kernel_serve/", "/site-packages/", "/dist-packages/", sysconfig.get_path("stdlib") + "/", "<frozen ")


class Watchdog:
    """Checks, in a thread of its own, whether a loop still runs; warns once for each time that it is blocked."""

    def __init__(self, longest_seconds: float = LONGEST_SECONDS) -> None:
        self._longest = longest_seconds
        self._answered = threading.Event()

    def watch(self, loop: asyncio.AbstractEventLoop, what: str) -> None:
        """Start. Call it on the loop, which runs in this thread as long as the process lives."""
        thread = threading.get_ident()
        threading.Thread(target=self._watch, args=(loop, thread, what), name="serve watchdog", daemon=True).start()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, what: str) -> None:
        while not loop.is_closed():
            self._answered.clear()
            asked = time.monotonic()
            try:
                loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:  # the loop was closed meanwhile
                return
            if not self._answered.wait(self._longest):
                _log.warning(f"the event loop of {what} is blocked", where=where(thread))
                self._answered.wait()
                _log.warning(
                    f"the event loop of {what} was blocked for {time.monotonic() - asked:.1f} s: no other "
                    "request could go on; use await in async methods, or a plain def, which runs in a thread"
                )
            time.sleep(self._longest)


def where(thread: int) -> str:
    """Return the line of user code at which a thread is, such as `my_module.py:12 in __call__: time.sleep(5)`.

    It is the innermost line outside of libraries; if all lines are in libraries, the innermost of all.
    """
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "unknown"
    stack = traceback.extract_stack(frame)
    mine = [each for each in stack if not any(part in each.filename for part in _LIBRARIES)]
    last = (mine or stack)[-1]
    return f"{last.filename}:{last.lineno} in {last.name}: {last.line}"
