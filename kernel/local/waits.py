"""Threads of local mode that wait: what goes on meanwhile, and when waiting has become pointless."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernel.local.streaming import AHEAD
from kernel.logs import Logger
from kernel.runtime.objects import PENDING, Entry
from kernel_spec.errors import InfeasibleError, SessionEndedError

if TYPE_CHECKING:
    from kernel.local.runtime import LocalRuntime

PATIENCE_SECONDS = 5.0
"""How long a `get` waits before it says what is missing; later warnings come ever rarer."""


class Waits:
    """Lets others have the turn and the CPU of a thread that waits; ends waits that never would."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._warnings: dict[int, tuple[float, float]] = {}
        self._log = Logger("kernel.local")

    def go_on(self, entries: list[Entry], deadline: float | None) -> None:
        """Go on with generators that were put aside and that `entries` depend on."""
        streaming = self._runtime.streaming
        for entry in entries:
            while entry.state == PENDING and (deadline is None or time.monotonic() < deadline):
                moved = [streaming.advance(run, run.ahead + AHEAD) for run in streaming.in_the_way_of(entry)]
                if not any(moved):
                    break
        self._runtime.calls.raise_interrupt()

    def block(self, entries: list[Entry]) -> Callable[[], None]:
        """The calling thread is about to wait for `entries`; call what is returned when it goes on."""
        runtime = self._runtime
        leave = runtime.stalemate.block(entries)
        thread = threading.get_ident()
        before = self._warnings.get(thread)
        self._warnings[thread] = (time.monotonic() + PATIENCE_SECONDS, PATIENCE_SECONDS)
        with runtime.lock:
            runtime.resources.lend_cpu(True)
        runtime.helpers.blocked()

        def back() -> None:
            runtime.helpers.unblocked()
            with runtime.lock:
                runtime.resources.lend_cpu(False)
            if before is None:
                self._warnings.pop(thread, None)
            else:
                self._warnings[thread] = before
            leave()

        return back

    def on_tick(self) -> None:
        """The calling thread has waited for a while, without a deadline: raise if it would for ever."""
        runtime = self._runtime
        if runtime.io.ended is not None:
            raise SessionEndedError(runtime.io.ended)
        waited_for = runtime.stalemate.blocked.get(threading.get_ident(), ())
        pending = [entry for entry in waited_for if entry.state == PENDING]
        if runtime.stalemate.is_quiet():
            raise InfeasibleError(
                f"this would wait for ever: {self._reason(pending)}, and nothing else runs that could change that. In "
                "local mode a task runs in the thread that submits it, so it can't wait for what that thread does later"
            )
        self._warn(pending)

    def _warn(self, pending: list[Entry]) -> None:
        thread = threading.get_ident()
        due, patience = self._warnings[thread]
        if pending and time.monotonic() > due:
            patience = min(patience * 2, 300.0)
            self._warnings[thread] = (time.monotonic() + patience, patience)
            reason = self._reason(pending)
            self._log.warning("still waiting for objects", objects=len(pending), reason=reason, pid=os.getpid())

    def _reason(self, pending: list[Entry]) -> str:
        with self._runtime.lock:
            return self._runtime.explanations.of(pending[0]) if pending else "nothing is yielded to the stream"
