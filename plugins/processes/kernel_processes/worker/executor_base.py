"""Share what executors have in common: the calls that wait and those that run, and how an executor ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from kernel_engine.messages.named_messages import Message
from kernel_engine.tasks.call_runner import CallRunner
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.transport.connection import Connection

Call = tuple[Connection, Message]
Lookup = Callable[[Message], tuple[Callable[..., Any], str]]
"""Returns the function that a message calls, and its name. May run code of the user, wait, and raise anything."""
NameOf = Callable[[Message], str]
"""Returns only the name of the function that a message calls."""


class ConcurrencyGroup(Protocol):
    """Holds the calls of a concurrency group. Any thread takes them off the left of `queue`, without the lock."""

    queue: deque[Call]
    limit: int


class ExecutorBase:
    """Keeps waiting and running calls. `running` is not empty while calls run; `exit_reason` ends the executor then."""

    groups: Mapping[str, ConcurrencyGroup]
    running: Mapping[Any, Any]

    def __init__(self, runtime: ProcessRuntime, runner: CallRunner, lookup: Lookup, name_of: NameOf) -> None:
        self._runtime = runtime
        self._io = runtime.io
        self._runner = runner
        self._lookup = lookup
        self._name_of = name_of
        self._trace = runtime.trace
        self.exit_reason: str | None = None
        self.on_exit_actor: Callable[[str], None] = lambda name: None
        self.on_system_exit: Callable[[Call, SystemExit, str], None] = lambda call, error, name: None

    @property
    def is_running(self) -> bool:
        """Whether any call runs or waits."""
        return bool(self.running) or any(group.queue for group in self.groups.values())

    def run_soon(self, function: Callable[[], None]) -> None:
        """Call `function` between two calls, where those run."""
        raise NotImplementedError

    def leave_in_child(self) -> None:
        """This process is a child that user code forked: it runs no calls."""

    def cancel_waiting(self, task: bytes) -> bool:
        """Drop a call that has not begun, and tell its sender; return whether there was one. Under the lock."""
        for group in self.groups.values():
            for call in list(group.queue):
                if call[1][1] == task:
                    with suppress(ValueError):  # The call has just begun.
                        group.queue.remove(call)
                        self._runner.send_cancelled(call[0], task, self._name_of(call[1]))
                        return True
        return False
