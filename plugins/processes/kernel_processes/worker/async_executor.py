"""Run the calls of an async actor on event loops.

One loop is that of the main thread, which also reads this process's messages; each concurrency group has another one.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType
from typing import Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.execution_context import LEAVING_SECONDS, Execution, ExitActor, current_execution
from kernel.runtime.object_ref import ObjectRef
from kernel_engine.messages.named_messages import Message
from kernel_engine.objects.acknowledgements import Arrival
from kernel_engine.tasks.call_runner import CallRunner
from kernel_engine.tasks.tracing import FAILED, failure_of
from kernel_processes.runtime.process_runtime import ProcessRuntime
from kernel_processes.transport.connection import Connection
from kernel_processes.worker.executor_base import Call, ExecutorBase, Lookup, NameOf
from kernel_processes.worker.group_loop import NeighbourLoop, cancel_all, end_calls_of, start_group_loop
from kernel_processes.worker.message_loop import run_with_messages

DEFAULT_CONCURRENCY = 1000
_CANCELLING_SECONDS = 1.0
"""Seconds for a coroutine to clean up when it is cancelled because its actor ends."""
_LOOK_SECONDS = 0.01
_END = object()


class AsyncGroup:
    """Holds running and waiting calls, and the loop that runs them (None before there is one)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        self.queue: deque[Call] = deque()
        self.loop: asyncio.AbstractEventLoop | None = None


class AsyncExecutor(ExecutorBase):
    """Runs `async def` methods as tasks of their group's loop, plain methods in that loop's thread, between two steps.

    The items of a plain generator are made in threads beside the loops. `running` has the tasks by the calls' ids.
    """

    def __init__(
        self,
        runtime: ProcessRuntime,
        runner: CallRunner,
        lookup: Lookup,
        name_of: NameOf,
        limit: int,
        groups: dict[str, int],
    ) -> None:
        super().__init__(runtime, runner, lookup, name_of)
        limit = limit or DEFAULT_CONCURRENCY
        self.groups: dict[str, AsyncGroup] = {"": AsyncGroup(limit)}
        self.groups |= {name: AsyncGroup(size) for name, size in groups.items()}
        self.running: dict[bytes, asyncio.Task[None]] = {}
        self._cancelled: dict[bytes, bool] = {}
        """Cancelled calls, and whether their asyncio task was cancelled: one that does not await anything can't be."""
        self._in_threads: set[bytes] = set()
        """Calls that have a thread of their own, which goes on when they are cancelled, until it looks."""
        self._taken: dict[bytes, int] = {}
        self._taken_events: dict[bytes, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._threads = ThreadPoolExecutor(min(limit, 64), thread_name_prefix="kernel-call")
        self._in_child = False
        self.on_over: Callable[[], None] = lambda: None
        """Called on the main thread's loop when the last call is over, or given up."""

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(self, construct: Callable[[], bool]) -> None:
        """Construct the actor on the loop, then run calls until `exit_reason` is set. In the main thread."""
        kind = NeighbourLoop if len(self.groups) > 1 else asyncio.SelectorEventLoop
        run_with_messages(self._main(construct), self._io, kind)

    async def _main(self, construct: Callable[[], bool]) -> None:
        self._loop = self.groups[""].loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        for name, group in self.groups.items():
            if name:
                group.loop = start_group_loop(name, self._io.flush)
        try:
            if construct():
                await self._ended.wait()
                await self._end_calls()
                self.on_over()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _end_calls(self) -> None:
        """Let the calls that run finish, for a while; then cancel them, and whatever they have started."""
        assert self._loop is not None
        deadline = self._loop.time() + LEAVING_SECONDS
        while self.running and self._loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
        others = [group.loop for group in self.groups.values() if group.loop not in (None, self._loop)]
        await asyncio.gather(*[end_calls_of(loop, _CANCELLING_SECONDS) for loop in others if loop is not None])
        await cancel_all(_CANCELLING_SECONDS)

    def wake(self) -> None:
        """Make the loop look at `exit_reason`."""
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

    def run_soon(self, function: Callable[[], None]) -> None:
        """Call `function` on the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(function)

    def leave_in_child(self) -> None:
        """In a child that user code forked: end when that code returns, or gives way to the parent's other calls."""
        self._in_child = True
        if self._loop is not None:
            self._loop.call_soon(os._exit, 0)

    # -- calls (under the lock, mostly in the loop's thread) -------------------------------------------------------

    def enqueue(self, connection: Connection, message: Message, group: str = "") -> None:
        """Take a call."""
        target = self.groups.get(group) or self.groups[""]
        target.queue.append((connection, message))
        loop = target.loop
        if loop is None:
            return
        if _runs_here(loop):
            self._start_more(target)
        else:
            loop.call_soon_threadsafe(self._start_more, target)

    def _start_more(self, group: AsyncGroup) -> None:
        loop = group.loop
        assert loop is not None
        while group.queue and group.active < group.limit and self.exit_reason is None:
            with self._io.lock:  # A cancellation finds the call either queued or running.
                if not group.queue:
                    return
                call = group.queue.popleft()
                if call[0].closed:
                    continue  # The sender is gone.
                group.active += 1
                self.running[call[1][1]] = loop.create_task(self._run_call(call, group))

    @calls_user_code
    async def _run_call(self, call: Call, group: AsyncGroup) -> None:
        connection, message = call
        _, task, _, arguments, slots, returns, extra = message
        runner = self._runner
        name = self._name_of(message)
        arrival: Arrival | None = None
        failed: Mapping[str, Any] | None = FAILED
        begun = time.time()
        try:
            function, _ = self._lookup(message)
            current_execution.set(Execution(task, name, extra["attempt"] if extra else 0))
            args, kwargs, arrival = runner.arguments(connection, arguments, slots)
            value = function(*args, **kwargs)
            if type(value) is CoroutineType or (inspect.isawaitable(value) and not isinstance(value, ObjectRef)):
                value = await value
            runner.settle(arrival)
            if returns < 0:
                await self._run_generator(connection, task, value, name, extra)
            if task in self._cancelled:
                raise asyncio.CancelledError  # The call never waited, or caught its cancellation.
            if returns < 0:
                runner.send_end(connection, task)
            else:
                runner.send_result(connection, task, returns, value, name)
            failed = None
        except ExitActor:
            self.on_exit_actor(name)
        except SystemExit as error:
            self.on_system_exit(call, error, name)
        except BaseException as error:
            runner.settle(arrival)
            error = runner.post_mortem(error)
            failed = failure_of(error)
            if isinstance(error, asyncio.CancelledError):
                if self.exit_reason is None:  # Otherwise its caller learns that the actor is dead.
                    runner.send_cancelled(connection, task, name)
            else:
                runner.send_failure(connection, task, name, error)
        finally:
            if self._in_child:
                os._exit(0)
            self.running.pop(task, None)
            if task not in self._in_threads:
                self._cancelled.pop(task, None)
            self._trace.add(name, begun, time.time(), task, failed)
            group.active -= 1
            if group.queue:
                self._start_more(group)

    async def _in_thread(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a plain function beside the loop."""
        context = current_execution.get()
        self._in_threads.add(context.task)
        future = self._threads.submit(_in_context, context, function, args, kwargs)
        future.add_done_callback(lambda _: self._thread_ended(context.task))
        return await asyncio.wrap_future(future)

    def _thread_ended(self, task: bytes) -> None:
        self._in_threads.discard(task)
        if task not in self.running:
            self._cancelled.pop(task, None)

    async def _run_generator(self, connection: Connection, task: bytes, value: Any, name: str, extra: Any) -> None:
        limit = extra["backpressure"] if extra else 0
        index = 0
        try:
            if hasattr(value, "__aiter__"):
                async for item in value:
                    index += 1
                    if not await self._yield_item(connection, task, index, item, name, limit):
                        break
            elif hasattr(value, "__iter__"):
                items = iter(value)
                while (item := await self._in_thread(next, (items, _END), {})) is not _END:
                    index += 1
                    if not await self._yield_item(connection, task, index, item, name, limit):
                        break
            else:
                raise TypeError(
                    f"{name}() must return a generator to be streamed, but returned a {type(value).__name__}"
                )
        finally:
            if inspect.isasyncgen(value):
                await value.aclose()
            elif inspect.isgenerator(value) and not value.gi_running:
                value.close()  # Otherwise its thread closes it after the present step.
            self._taken.pop(task, None)
            self._taken_events.pop(task, None)

    async def _yield_item(
        self, connection: Connection, task: bytes, index: int, item: Any, name: str, limit: int
    ) -> bool:
        """Send an item; return, when the consumer is near enough, whether it wants more."""
        self._runner.send_item(connection, task, index, item, name)
        while limit and 0 <= self._taken.get(task, 0) <= index - limit:
            event = self._taken_events.setdefault(task, asyncio.Event())
            event.clear()
            await event.wait()
        return self._taken.get(task, 0) >= 0

    def on_stream_taken(self, connection: Connection, message: Message) -> None:
        """The consumer of a stream has taken items."""
        running = self.running.get(message[1])
        if running is None:
            return
        self._taken[message[1]] = message[2]
        event = self._taken_events.get(message[1])
        if event is not None:
            running.get_loop().call_soon_threadsafe(event.set)

    def cancel(self, task: bytes) -> None:
        """Cancel a call."""
        if not self.cancel_waiting(task) and (running := self.running.get(task)) is not None:
            self._cancelled.setdefault(task, False)
            running.get_loop().call_soon_threadsafe(self._tell_cancelled, task, running)

    def _tell_cancelled(self, task: bytes, running: asyncio.Task[None]) -> None:
        """Between two steps of a call that was cancelled, or after its end."""
        if task in self.running:
            self._cancelled[task] = True
            running.cancel()
        elif task not in self._in_threads:
            self._cancelled.pop(task, None)

    def thread_of(self, task: bytes) -> int:
        """Return the thread whose loop runs a call; 0 if none does."""
        running = self.running.get(task)
        return getattr(running.get_loop(), "_thread_id", 0) or 0 if running is not None else 0

    def is_cancelled(self, task: bytes, looks_itself: bool) -> bool:
        """Return whether a call that runs was cancelled."""
        return task in self._cancelled

    def give_back(self, count: int | None = None, only: Connection | None = None) -> None:
        """Actor calls are never given back."""


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


@calls_user_code
def _in_context(context: Execution, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    token = current_execution.set(context)
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"a method raised StopIteration: {error!r}") from error
    finally:
        current_execution.reset(token)
