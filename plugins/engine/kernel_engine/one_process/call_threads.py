"""Run one call in this process: arguments in, the user's function, results or failure out.

Arguments and results are really serialized, so that a value which could not travel between processes fails here, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.execution_context import Execution, ExitActor
from kernel_engine.one_process.generators import GeneratorRun, Generators
from kernel_engine.one_process.place import CallPlace
from kernel_engine.one_process.transport import InProcessChannel, InProcessTransport
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.tasks import TaskTable
from kernel_engine.tasks.tracing import FAILED, CallTrace
from kernel_spec.errors import WorkerDiedError

Function = Callable[..., Any]
Ended = Callable[[BaseException | None, str], None]
"""Called once when a call is over, with its exception, and why that ends its actor (ExitActor, SystemExit) or ""."""


@calls_user_code
def call_user(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what is the user's; signals' handlers may raise in it."""
    return function(*args, **kwargs)


class CallThreads:
    """Records which call runs in which thread."""

    def __init__(
        self, transport: InProcessTransport, table: TaskTable, generators: Generators, trace: CallTrace
    ) -> None:
        self._lock = transport.lock
        self._table = table
        self._generators = generators
        self._trace = trace
        self.threads: dict[bytes, int] = {}
        self.cancelled: set[bytes] = set()
        self._interrupt: KeyboardInterrupt | None = None

    def run(
        self,
        task: Task,
        lookup: Callable[[], tuple[Function, str]],
        runner: CallRunner,
        channel: InProcessChannel,
        place: CallPlace,
        ended: Ended,
        in_thread: bool = False,
    ) -> None:
        """Run a call to its end, or a generator as far as it may go. Raises only a KeyboardInterrupt of the user."""
        if not self.begin(task, threading.get_ident()):
            ended(None, "")
            return
        name, begun = task.name, time.time()
        over, error = True, None
        try:
            with place.occupied(Execution(task.id, name, task.attempt)):
                function, name = lookup()
                slots = self._table.arguments.message(task)
                args, kwargs, _ = runner.arguments(channel, task.arguments, slots)  # type: ignore[arg-type]
                value = call_user(function, args, kwargs)
                returns = task.definition.returns
                if returns >= 0:
                    runner.send_result(channel, task.id, returns, value, name)  # type: ignore[arg-type]
                else:
                    over = False
                    finished = lambda raised: self._finish(task, name, runner, channel, raised, ended)  # noqa: E731
                    run = GeneratorRun(task, name, iter(()), runner, channel, place, finished, in_thread)
                    self._generate(run, value)
        except BaseException as raised:
            over, error = True, raised
        finally:
            self.traced(name, begun, task, failed=error is not None)
        if over:
            self._finish(task, name, runner, channel, error, ended)
        self.raise_interrupt()

    def raise_interrupt(self) -> None:
        """Raise the Ctrl-C that ended a call of the main thread."""
        if self._interrupt is not None and threading.current_thread() is threading.main_thread():
            interrupt, self._interrupt = self._interrupt, None
            raise interrupt

    def begin(self, task: Task, thread: int) -> bool:
        """Note that a call starts (`thread` 0: on an event loop); return False when there is nothing left to do."""
        with self._lock:
            if task.cancelled:
                return False
            failure = self._table.arguments.failure(task) if task.slots is not None else None
            if failure is not None:
                self._table.fail(task, *failure)
                return False
            self._table.running[task.id] = task
            if thread:
                self.threads[task.id] = thread
            return True

    def traced(self, name: str, begun: float, task: Task, failed: bool) -> None:
        """Note in the timeline that a call ended."""
        self._trace.note_function(name, getattr(task.definition, "function", None))
        self._trace.add(name, begun, time.time(), task.id, FAILED if failed else None)

    def keep_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        """Have `raise_interrupt` raise the user's Ctrl-C where the state is in order."""
        self._interrupt = interrupt

    def _generate(self, run: GeneratorRun, value: Any) -> None:
        self._generators.begin(run, value)
        if not run.ended:
            self.threads.pop(run.task.id, None)  # Put aside: it runs in whichever thread continues it.

    def _finish(
        self,
        task: Task,
        name: str,
        runner: CallRunner,
        channel: InProcessChannel,
        error: BaseException | None,
        ended: Ended,
    ) -> None:
        self.threads.pop(task.id, None)
        ended(error, self.report(task, name, runner, channel, error) if error is not None else "")

    def report(self, task: Task, name: str, runner: CallRunner, channel: InProcessChannel, error: BaseException) -> str:
        """Send why a call failed, unless it ended its actor: then return why the actor is gone."""
        connection: Any = channel
        if isinstance(error, ExitActor):
            return f"it ended itself: {name}() called exit_actor()"
        if isinstance(error, SystemExit):
            why = f"{name}() called sys.exit({error.code!r}), which ended worker process {os.getpid()}"
            if runner.actor_name is not None:
                return why
            runner.send_failure(connection, task.id, name, WorkerDiedError(why))
            return ""
        if isinstance(error, KeyboardInterrupt):
            cancelled = task.id in self.cancelled
            self.cancelled.discard(task.id)
            users = not cancelled and threading.current_thread() is threading.main_thread()
            if users:
                self._interrupt = error
            if users or cancelled:
                runner.send_cancelled(connection, task.id, name)
                return ""
        runner.send_failure(connection, task.id, name, error)
        return ""
