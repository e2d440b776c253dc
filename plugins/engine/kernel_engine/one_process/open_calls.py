"""Keep the calls that have not ended: they can be cancelled, and fail when their actor or the session ends."""

from __future__ import annotations

import pickle

from kernel.runtime.object_ref import ObjectRef
from kernel_engine.failures.failures import Failure, failure_of
from kernel_engine.messages.process_messages import CANCELLED
from kernel_engine.one_process.calls import Call, CalledActor
from kernel_engine.one_process.core import OneProcessCore
from kernel_engine.serialization.value_serializer import ValueSerializer
from kernel_engine.tasks.task import Task, cancelled_error
from kernel_spec.errors import PendingCallsLimitError, SessionEndedError


class OpenCalls(OneProcessCore):
    """Keeps every call from `begin` until its results are there. Results of a call that was broken off are dropped."""

    def __init__(
        self, namespace: str | None, serializer: ValueSerializer | None = None, process: bytes | None = None
    ) -> None:
        super().__init__(namespace, serializer, process)
        self.open_calls: dict[bytes, Call] = {}

    def begin(self, call: Call) -> None:
        """Keep a new call. Raises SessionEndedError when there is no session any more."""
        with self.lock:
            self._check_alive()
            self.tasks.register(call.task)
            self.open_calls[call.id] = call

    def task_ended(self, task: Task) -> None:
        """See `TaskEvents.task_ended`."""
        self.open_calls.pop(task.id, None)

    def run_again(self, task: Task) -> None:
        """See `TaskEvents.run_again`: the thread that has made the call makes it again."""
        call: Call = self.executing[task.id]
        call.again = True
        self.open_calls[task.id] = call

    def break_call(self, call: Call, failure: Failure) -> None:
        """Have a call fail now, whether it runs or waits: it is not begun any more, and a generator goes no further."""
        with self.lock:
            if call.id in self.open_calls:
                call.task.cancelled = True
                self.tasks.fail(call.task, *failure)
                self.generators.close(call.id)

    def break_calls(self, actor: CalledActor, failure: Failure) -> None:
        """Have all calls of an actor fail that have not ended."""
        with self.lock:
            for call in [call for call in self.open_calls.values() if call.actor is actor]:
                self.break_call(call, failure)

    def check_limit(self, actor: CalledActor, limit: int) -> None:
        """Raise PendingCallsLimitError when so many calls of an actor have not ended."""
        with self.lock:
            waiting = sum(call.actor is actor for call in self.open_calls.values())
        if waiting >= limit:
            raise PendingCallsLimitError(
                f"{actor.name} ({actor.id.hex()[:12]}) has {waiting} calls waiting, and max_pending_calls={limit}; "
                "get some results before calling it again"
            )

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Have a call fail, and what it has submitted. One that waits never runs; one that runs may ask."""
        cancelled = {ref.task_id()}
        with self.lock:
            for call in list(self.open_calls.values()):  # In the order of submission: a call's own calls come later.
                if call.id in cancelled or (recursive and call.task.parent in cancelled):
                    cancelled.add(call.id)
                    self.break_call(call, (CANCELLED, pickle.dumps(cancelled_error(call.task))))

    def is_cancelled(self, task: bytes) -> bool:
        """Return whether the call that runs here was cancelled."""
        running = self.executing.get(task)
        return running is not None and running.task.cancelled

    def end_calls(self) -> None:
        """Have all calls fail because the session has ended. Under the lock."""
        failure = failure_of(SessionEndedError(str(self.io.ended)))
        for call in list(self.open_calls.values()):
            self.break_call(call, failure)
        super().end_calls()
