"""Block threads of local mode. Others run meanwhile, and a wait that can never end fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from kernel.logs import Logger
from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import AHEAD, Generators
from kernel_engine.one_process.transport import InProcessTransport
from kernel_local_mode.deadlock import DeadlockDetector
from kernel_local_mode.explanation import Explanations
from kernel_local_mode.helpers import Helpers
from kernel_local_mode.resources import LocalResources
from kernel_spec.errors import InfeasibleError, SessionEndedError

PATIENCE_SECONDS = 5.0
"""Seconds before a waiting `get` warns of what is missing; the intervals between later warnings grow."""


class BlockedThreads:
    """Gives the turn and the CPU of a waiting thread to others, and ends waits that would never end."""

    def __init__(
        self,
        transport: InProcessTransport,
        streaming: Generators,
        calls: CallThreads,
        resources: LocalResources,
        helpers: Helpers,
        deadlock: DeadlockDetector,
        explanations: Explanations,
    ) -> None:
        self._transport = transport
        self._lock = transport.lock
        self._streaming = streaming
        self._calls = calls
        self._resources = resources
        self._helpers = helpers
        self._deadlock = deadlock
        self._explanations = explanations
        self._warnings: dict[int, tuple[float, float]] = {}
        self._log = Logger("kernel_local_mode")

    def go_on(self, entries: list[ObjectEntry], deadline: float | None) -> None:
        """Go on with generators that were put aside and that `entries` depend on."""
        for entry in entries:
            while entry.state == PENDING and (deadline is None or time.monotonic() < deadline):
                runs = self._streaming.in_the_way_of(entry)
                moved = [self._streaming.advance(run, run.ahead + AHEAD) for run in runs]
                if not any(moved):
                    break
        self._calls.raise_interrupt()

    def block(self, entries: list[ObjectEntry]) -> Callable[[], None]:
        """Note that the calling thread begins to wait for `entries`. Return the function to call when it goes on."""
        leave = self._deadlock.block(entries)
        thread = threading.get_ident()
        before = self._warnings.get(thread)
        self._warnings[thread] = (time.monotonic() + PATIENCE_SECONDS, PATIENCE_SECONDS)
        with self._lock:
            self._resources.lend_cpu(True)
        self._helpers.blocked()

        def back() -> None:
            self._helpers.unblocked()
            with self._lock:
                self._resources.lend_cpu(False)
            if before is None:
                self._warnings.pop(thread, None)
            else:
                self._warnings[thread] = before
            leave()

        return back

    def on_tick(self) -> None:
        """Raise InfeasibleError if the calling thread, which waits without a deadline, would wait for ever."""
        if self._transport.ended is not None:
            raise SessionEndedError(self._transport.ended)
        waited_for = self._deadlock.blocked.get(threading.get_ident(), ())
        pending = [entry for entry in waited_for if entry.state == PENDING]
        if self._deadlock.is_quiet():
            raise InfeasibleError(
                f"this would wait for ever: {self._reason(pending)}, and nothing else runs that could change that. In "
                "local mode a task runs in the thread that submits it, so it can't wait for what that thread does later"
            )
        self._warn(pending)

    def _warn(self, pending: list[ObjectEntry]) -> None:
        thread = threading.get_ident()
        due, patience = self._warnings[thread]
        if pending and time.monotonic() > due:
            patience = min(patience * 2, 300.0)
            self._warnings[thread] = (time.monotonic() + patience, patience)
            reason = self._reason(pending)
            self._log.warning("still waiting for objects", objects=len(pending), reason=reason, pid=os.getpid())

    def _reason(self, pending: list[ObjectEntry]) -> str:
        with self._lock:
            return self._explanations.of(pending[0]) if pending else "nothing is yielded to the stream"
