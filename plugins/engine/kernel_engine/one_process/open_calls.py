"""The calls that have not ended: they can be cancelled, and fail when their actor or the session ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from kernel.runtime.object_ref import ObjectRef
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.one_process.calls import Call, CalledActor
from kernel_engine.one_process.objects import OneProcessObjects
from kernel_spec.errors import PendingCallsLimitError, SessionEndedError, TaskCancelledError


class OpenCalls(OneProcessObjects):
    """Keeps every call from `begin` until it has run. What a call returns after it was broken is dropped."""

    def __init__(self, blocked: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        super().__init__(blocked)
        self.calls: dict[bytes, Call] = {}
        self._why_ended: Failure | None = None

    def begin(self, call: Call) -> None:
        """Keep a new call. Raises SessionEndedError when there is no session any more."""
        with self.changed:
            if self._why_ended is not None:
                raise SessionEndedError("the session was shut down")
            self.calls[call.id] = call
            call.when_ended = lambda: self.calls.pop(call.id, None)

    def break_call(self, call: Call, failure: Failure) -> None:
        """Have a call fail now, whether it runs or waits."""
        with self.changed:
            call.cancelled = True
            call.fail(failure)

    def break_calls(self, actor: CalledActor, failure: Failure) -> None:
        """Have all calls of an actor fail that have not ended."""
        with self.changed:
            for call in [call for call in self.calls.values() if call.actor is actor]:
                self.break_call(call, failure)

    def check_limit(self, actor: CalledActor, limit: int) -> None:
        """Raise PendingCallsLimitError when so many calls of an actor have not ended."""
        with self.changed:
            waiting = sum(call.actor is actor for call in self.calls.values())
        if waiting >= limit:
            raise PendingCallsLimitError(
                f"{actor.name} ({actor.id.hex()[:12]}) has {waiting} calls waiting, and max_pending_calls={limit}; "
                "get some results before calling it again"
            )

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Have a call fail, and what it has submitted. One that waits never runs; one that runs may ask."""
        cancelled = {ref.task_id()}
        with self.changed:
            for call in list(self.calls.values()):  # in the order of submission: what it has submitted comes after it
                if call.id in cancelled or (recursive and call.parent in cancelled):
                    cancelled.add(call.id)
                    error = TaskCancelledError(f"task {call.name}() ({call.id.hex()}) was cancelled")
                    self.break_call(call, failure_of(error))

    def is_cancelled(self, task: bytes) -> bool:
        """Return whether the call that runs here was cancelled."""
        with self.changed:
            return task in self.calls and self.calls[task].cancelled

    def end_calls(self) -> Failure:
        """Have all calls fail because the session has ended, and begin no more; return that failure."""
        with self.changed:
            self._why_ended = failure_of(SessionEndedError("the session was shut down"))
            for call in list(self.calls.values()):
                self.break_call(call, self._why_ended)
            return self._why_ended
