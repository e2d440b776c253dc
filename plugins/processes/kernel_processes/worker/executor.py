"""Run calls in a worker: in its main thread one after another, in more threads where an actor allows it.

The main thread takes calls off the queue and runs them; when the queue is empty it polls for more. For an actor
with `max_concurrency` above one, further threads join in when calls get stuck behind each other (see `CallGroup`).
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kernel.runtime.critical_sections import calls_user_code, critical, is_from_outside
from kernel.runtime.definitions import DYNAMIC
from kernel.runtime.execution_context import NO_EXECUTION, Execution, ExitActor, current_execution
from kernel.runtime.process_title import IDLE_SECONDS, worker_title
from kernel.runtime.waiter import Waiter
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.tracing import FAILED, failure_of
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.transport.connection import Connection
from kernel_processes.worker.call_durations import CallDurations
from kernel_processes.worker.call_group import CallGroup
from kernel_processes.worker.executor_base import Call, ExecutorBase, Lookup, NameOf

_FLUSH_SECONDS = 0.001
_BETWEEN_CALLS = b""


class Executor(ExecutorBase):
    """Runs queued calls. `running` has their ids by thread, or a marker between the end of a call and the next one."""

    def __init__(self, runtime: ProcessRuntime, runner: CallRunner, lookup: Lookup, name_of: NameOf) -> None:
        super().__init__(runtime, runner, lookup, name_of)
        self.main = self._make_group("", 1, with_main=True)
        self.groups: dict[str, CallGroup] = {"": self.main}
        self._work: Waiter | None = None
        self._errands: deque[Callable[[], None]] = deque()
        self.running: dict[int, bytes] = {}
        self._main_thread = threading.main_thread().ident
        self._interrupts = runtime.io.pump.interrupts
        self._cancelled: set[bytes] = set()
        self._looks_itself: set[bytes] = set()
        self._taken: dict[bytes, int] = {}
        self._taken_waiters: dict[bytes, Waiter] = {}
        self._calls: dict[bytes, int] = {}
        self.durations = CallDurations()
        self.loose_ends: list[Callable[[], None]] = []
        """Functions to call when the running call has ended."""
        self.refuses_tasks = False
        self.worn_out = False
        self._io.interrupts.install(self.in_call)
        signal.signal(signal.SIGINT, self._on_interrupt)

    # -- queueing (in the thread that reads messages, under the lock) ----------------------------------------------

    def add_group(self, name: str, limit: int) -> None:
        """Let calls of a concurrency group run in `limit` threads of their own."""
        self.groups[name] = self._make_group(name, limit, with_main=False)

    def _make_group(self, name: str, limit: int, with_main: bool) -> CallGroup:
        return CallGroup(name, limit, with_main, self._io, self._drain, lambda: self.exit_reason is not None)

    def enqueue(self, connection: Connection, message: Message, group: str = "") -> None:
        """Take a call."""
        target = self.groups.get(group) or self.main
        target.queue.append((connection, message))
        if self.refuses_tasks:
            self.give_back()
        elif target.with_main and self._work is not None:
            work, self._work = self._work, None
            work.complete()
        elif target.limit > 1 or not target.with_main:
            target.watch()

    def finish_calls(self, seconds: float) -> None:
        """After `exit_reason` was set: wait so long for the calls that run in other threads."""
        deadline = time.monotonic() + seconds
        for group in self.groups.values():
            group.join(deadline)

    # -- running ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `exit_reason` is set. In the main thread."""
        queue = self.main.queue
        while self.exit_reason is None:
            try:
                if self._errands:
                    self._errands.popleft()()
                elif queue:
                    self._drain(self.main)
                else:
                    self._wait_for_work(queue)
            except KeyboardInterrupt:
                continue  # A cancellation came too late for its task.
            except Exception as error:
                if not is_from_outside(error):
                    raise

    def _wait_for_work(self, queue: deque[Call]) -> None:
        work = Waiter(1)
        with self._io.lock:
            if queue or self._errands or self.exit_reason is not None:
                return
            if not self.running:
                self._cancelled.clear()  # These calls had ended already.
            self._work = work
        if worker_title.is_idle or not self._io.pump.wait(work, time.monotonic() + IDLE_SECONDS):
            worker_title.idle()
            self._io.pump.wait(work)

    def run_soon(self, function: Callable[[], None]) -> None:
        """Call `function` in the main thread."""
        self._errands.append(function)
        self.wake()

    def wake(self) -> None:
        """Make the main thread look at `exit_reason`."""
        work, self._work = self._work, None
        if work is not None:
            work.complete()
        for group in self.groups.values():
            group.wake()

    def _drain(self, group: CallGroup) -> None:
        thread = threading.get_ident()
        self.running[thread] = _BETWEEN_CALLS
        try:
            self._run_calls(group)
        finally:
            self.running.pop(thread, None)
        flush_output()
        self._io.flush()

    def _run_calls(self, group: CallGroup) -> None:
        clock = time.perf_counter
        pump = self._io.pump
        queue = group.queue
        started = flushed = clock()
        function, count = b"", 0
        last: Connection | None = None
        while queue and self.exit_reason is None:
            try:
                call = queue.popleft()
            except IndexError:
                break
            connection, message = call
            if connection.closed:
                continue  # The sender is gone.
            if message[2] != function or connection is not last:
                if count and message[0] == op.TASK:
                    self._report(last, function, count, started)
                function, count, last, started = message[2], 0, connection, clock()
                if message[0] == op.TASK:
                    worker_title.task(self._name_of(message))
            if message[6] is None:
                self._run_call(call)
            else:
                self._run_unusual_call(call, message[6])
            group.finished += 1
            count += 1
            if queue:
                now = clock()
                if now - flushed > _FLUSH_SECONDS:
                    flushed = now
                    self._io.flush()
                elif not pump.backing_off:
                    pump.flush_soon()  # The next call may take long.
        if count:
            self._report(last, function, count, started)

    def _report(self, connection: Connection | None, function: Any, count: int, began: float) -> None:
        """Report the duration of a function's calls to their sender, if it has changed."""
        if connection is not None and type(function) is bytes:
            now = time.perf_counter()
            seconds = self.durations.measured(function, (now - began) / count, now)
            if seconds is not None:
                self._io.send(connection, (op.TOOK, function, seconds))

    def _run_unusual_call(self, call: Call, extra: dict[str, Any]) -> None:
        alone = extra.get("alone")
        if alone:
            self._io.flush()
        self._run_call(call)
        if alone:
            self._io.flush()
        limit = extra.get("max_calls")
        if limit:
            connection, message = call
            calls = self._calls[message[2]] = self._calls.get(message[2], 0) + 1
            if calls >= limit:
                with self._io.lock:
                    self.worn_out = self.refuses_tasks = True
                    self.give_back()
                    self._io.send(connection, packed(op.WornOut()))

    @calls_user_code
    def _run_call(self, call: Call) -> None:
        connection, message = call
        _, task, _, arguments, slots, returns, extra = message
        runner = self._runner
        name = ""
        thread = threading.get_ident()
        arrival: Arrival | None = None
        failed: Mapping[str, Any] | None = FAILED
        begun = time.time()
        try:
            try:
                self.running[thread] = task
                if task in self._cancelled:
                    raise KeyboardInterrupt  # The call would have been interrupted so, had it begun.
                function, name = self._lookup(message)
                current_execution.set(Execution(task, name, extra["attempt"] if extra else 0))
                if self._cancelled and task in self._cancelled:
                    raise KeyboardInterrupt  # Nothing raised it while the function was being loaded.
                args, kwargs, arrival = runner.arguments(connection, arguments, slots)
                value = function(*args, **kwargs)
                if returns < 0:
                    self._run_generator(connection, task, returns, value, name, extra)
                if self._looks_itself and task in self._looks_itself and task in self._cancelled:
                    raise KeyboardInterrupt  # The call noticed its cancellation and ended itself.
            finally:
                self.running[thread] = _BETWEEN_CALLS  # The call is not interrupted from here on.
                args = kwargs = None  # type: ignore[assignment]
            if self._interrupts:
                self._interrupts.pop(thread, None)
            if arrival is not None:
                runner.settle(arrival)
            if returns >= 0:
                runner.send_result(connection, task, returns, value, name)
            else:
                runner.send_end(connection, task)
            failed = None
        except BaseException as error:
            name = name or self._name_of(message)
            error = runner.post_mortem(error)
            failed = failure_of(error)
            self._failed(call, name, arrival, error)
        finally:
            if self._cancelled:
                self._cancelled.discard(task)
            if self._looks_itself:
                self._looks_itself.discard(task)
            while self.loose_ends:
                self.loose_ends.pop()()
            current_execution.set(NO_EXECUTION)
            self._trace.add(name, begun, time.time(), task, failed)

    @critical
    def _failed(self, call: Call, name: str, arrival: Arrival | None, error: BaseException) -> None:
        connection, message = call
        task = message[1]
        self._interrupts.pop(threading.get_ident(), None)
        if isinstance(error, ExitActor):
            self.on_exit_actor(name)
        elif isinstance(error, SystemExit):
            self.on_system_exit(call, error, name)
        else:
            self._runner.settle(arrival)
            if isinstance(error, KeyboardInterrupt) and task in self._cancelled:
                self._runner.send_cancelled(connection, task, name)
            else:
                self._runner.send_failure(connection, task, name, error)

    # -- generators ------------------------------------------------------------------------------------------------

    @calls_user_code
    def _run_generator(
        self, connection: Connection, task: bytes, returns: int, value: Any, name: str, extra: Any
    ) -> None:
        if not hasattr(value, "__next__") and not hasattr(value, "__iter__"):
            raise TypeError(
                f"{name}() has num_returns='{'dynamic' if returns == DYNAMIC else 'streaming'}' and must return "
                f"a generator, but returned a {type(value).__name__}"
            )
        limit = extra["backpressure"] if extra else 0
        flushed = 0.0
        try:
            for index, item in enumerate(value, 1):
                self._runner.send_item(connection, task, index, item, name)
                now = time.perf_counter()
                if now - flushed > _FLUSH_SECONDS:
                    flushed = now
                    self._io.flush()
                    if self._interrupts:
                        self._io.raise_interrupt()
                if limit:
                    self._await_consumer(task, index - limit + 1)
                if self._taken.get(task, 0) < 0:
                    break
        finally:
            if inspect.isgenerator(value):
                value.close()
            self._taken.pop(task, None)
            self._taken_waiters.pop(task, None)

    def _await_consumer(self, task: bytes, least: int) -> None:
        while 0 <= self._taken.get(task, 0) < least:
            waiter = Waiter(1)
            with self._io.lock:
                if not 0 <= self._taken.get(task, 0) < least:
                    return
                self._taken_waiters[task] = waiter
            self._io.pump.wait(waiter)

    def on_stream_taken(self, connection: Connection, message: Message) -> None:
        """The consumer of a stream has taken items (-1: it will take no more)."""
        _, task, count = message
        if task not in self.running.values():
            return
        self._taken[task] = count
        waiter = self._taken_waiters.pop(task, None)
        if waiter is not None:
            waiter.complete()

    # -- giving back and cancelling (under the lock) ---------------------------------------------------------------

    def give_back(self, count: int | None = None, only: Connection | None = None) -> None:
        """Return queued tasks that are not started (the last `count`) to their senders."""
        queue = self.main.queue
        by_connection: dict[Connection, list[bytes]] = {}
        kept: list[Call] = []
        returned = 0
        while queue and (count is None or returned < count):
            try:
                call = queue.pop()
            except IndexError:  # Another thread has begun the last one.
                break
            if call[1][0] == op.TASK and (only is None or call[0] is only):
                by_connection.setdefault(call[0], []).append(call[1][1])
                returned += 1
            else:
                kept.append(call)
        queue.extend(reversed(kept))
        for connection, tasks in by_connection.items():
            if not connection.closed:
                self._io.send(connection, (op.RETURNED, tasks[::-1]))

    def cancel(self, task: bytes) -> None:
        """Cancel a call: drop it if it waits, interrupt it if it runs."""
        if self.cancel_waiting(task):
            return
        if self.running:
            self._cancelled.add(task)  # First, because it may just be leaving the queue.
        for thread, running in list(self.running.items()):
            if running == task and task not in self._looks_itself:
                runs = lambda thread=thread: self.running.get(thread) == task  # noqa: E731
                self._io.interrupts.interrupt_call(thread, runs)

    def is_cancelled(self, task: bytes, looks_itself: bool) -> bool:
        """Return whether a call that runs was cancelled. One that `looks_itself` is no longer interrupted."""
        if looks_itself and task in self.running.values():
            self._looks_itself.add(task)
        return task in self._cancelled

    def _on_interrupt(self, number: int, frame: Any) -> None:
        if self.running.get(self._main_thread or 0) in self._cancelled:
            raise KeyboardInterrupt

    def in_call(self) -> bool:
        """Whether the calling thread runs a call."""
        return current_execution.get() is not NO_EXECUTION


def flush_output() -> None:
    """Let out what user code has printed without ending the line."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        return  # User code closed or replaced it.
