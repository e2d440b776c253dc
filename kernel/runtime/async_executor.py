"""Running the calls of an async actor: coroutines on one event loop, which also reads this process's messages."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernel.runtime.call_runner import CallRunner
from kernel.runtime.core import CoreRuntime
from kernel.runtime.execution_context import Execution, ExitActor, current_execution
from kernel.runtime.executor import Call, Lookup
from kernel.runtime.tracing import Trace
from kernel.transport.connection import Connection, Message

DEFAULT_CONCURRENCY = 1000
_END = object()


class AsyncGroup:
    """Calls that may run at once, and those that wait."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        self.queue: deque[Call] = deque()


class AsyncExecutor:
    """Runs `async def` methods as tasks of the main thread's loop, plain methods in threads beside it."""

    def __init__(
        self, runtime: CoreRuntime, runner: CallRunner, lookup: Lookup, trace: Trace, limit: int, groups: dict[str, int]
    ) -> None:
        self._runtime = runtime
        self._io = runtime.io
        self._runner = runner
        self._lookup = lookup
        self._trace = trace
        limit = limit or DEFAULT_CONCURRENCY
        self.groups = {"": AsyncGroup(limit), **{name: AsyncGroup(size) for name, size in groups.items()}}
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._taken: dict[bytes, int] = {}
        self._taken_events: dict[bytes, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event | None = None
        self._flush_planned = False
        self._threads = ThreadPoolExecutor(min(limit, 64), thread_name_prefix="kernel-call")
        self._in_child = False
        self.exit_reason: str | None = None
        self.on_exit_actor: Callable[[str], None] = lambda name: None
        self.on_system_exit: Callable[[Call, SystemExit, str], None] = lambda call, error, name: None

    # -- the loop --------------------------------------------------------------------------------------------------

    def run(self, construct: Callable[[], bool]) -> None:
        """Construct the actor on the loop, then run calls until `exit_reason` is set. In the main thread."""
        asyncio.run(self._main(construct))

    async def _main(self, construct: Callable[[], bool]) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._io.pump.yield_to_loop(True)
        loop.add_reader(self._io.reactor.fileno(), self._io.pump.poll_now)
        self._runtime.loop_thread = True
        try:
            if construct():
                self._io.pump.poll_now()
                await self._ended.wait()
                if self._tasks:
                    await asyncio.wait(self._tasks.values())
        finally:
            loop.remove_reader(self._io.reactor.fileno())
            self._io.pump.yield_to_loop(False)
            self._threads.shutdown(wait=False, cancel_futures=True)

    def wake(self) -> None:
        """Make the loop look at `exit_reason`."""
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)

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
        loop = self._loop
        if loop is None:
            return
        if _runs_here(loop):
            self._start_more(target)
        else:
            loop.call_soon_threadsafe(self._start_more, target)

    def _start_more(self, group: AsyncGroup) -> None:
        assert self._loop is not None
        while group.queue and group.active < group.limit and self.exit_reason is None:
            call = group.queue.popleft()
            group.active += 1
            task = self._loop.create_task(self._run_call(call, group))
            self._tasks[call[1][1]] = task

    async def _run_call(self, call: Call, group: AsyncGroup) -> None:
        connection, message = call
        _, task, name, arguments, slots, returns, extra = message
        runner = self._runner
        begun = time.time()
        try:
            function, name = self._lookup(message)
            current_execution.set(Execution(task, name, extra["attempt"] if extra else 0))
            args, kwargs, arrival = runner.arguments(connection, arguments, slots)
            if inspect.iscoroutinefunction(function):
                value = await function(*args, **kwargs)
            elif inspect.isasyncgenfunction(function):
                value = function(*args, **kwargs)
            else:
                value = await self._in_thread(function, args, kwargs)
                if inspect.isawaitable(value):
                    value = await value
            if arrival is not None and arrival.unsettled.remaining:
                runner.settle(arrival)
            if returns < 0:
                await self._run_generator(connection, task, value, name, extra)
            else:
                runner.send_result(connection, task, returns, value, name)
        except asyncio.CancelledError:
            runner.send_cancelled(connection, task, name)
        except ExitActor:
            self.on_exit_actor(name)
        except SystemExit as error:
            self.on_system_exit(call, error, name)
        except BaseException as error:
            runner.send_failure(connection, task, name, error)
        finally:
            if self._in_child:
                os._exit(0)
            self._tasks.pop(task, None)
            self._trace.add(name, begun, time.time(), task)
            group.active -= 1
            if group.queue:
                self._start_more(group)
            self._flush_later()

    async def _in_thread(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a plain function beside the loop."""
        assert self._loop is not None
        context = current_execution.get()
        return await self._loop.run_in_executor(self._threads, _in_context, context, function, args, kwargs)

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
            elif inspect.isgenerator(value):
                value.close()
            self._taken.pop(task, None)
            self._taken_events.pop(task, None)
        self._runner.send_end(connection, task)

    async def _yield_item(
        self, connection: Connection, task: bytes, index: int, item: Any, name: str, limit: int
    ) -> bool:
        """Send an item; return, when the consumer is near enough, whether it wants more."""
        self._runner.send_item(connection, task, index, item, name)
        self._flush_later()
        while limit and 0 <= self._taken.get(task, 0) <= index - limit:
            event = self._taken_events.setdefault(task, asyncio.Event())
            event.clear()
            await event.wait()
        return self._taken.get(task, 0) >= 0

    def on_stream_taken(self, connection: Connection, message: Message) -> None:
        """The consumer of a stream has taken items."""
        if message[1] not in self._tasks:
            return
        self._taken[message[1]] = message[2]
        event = self._taken_events.get(message[1])
        if event is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(event.set)

    def _flush_later(self) -> None:
        if not self._flush_planned and self._loop is not None:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        self._io.flush()

    def cancel(self, connection: Connection, task: bytes) -> bool:
        """Cancel a call; return whether it was found."""
        for group in self.groups.values():
            for call in group.queue:
                if call[1][1] == task:
                    group.queue.remove(call)
                    self._runner.send_cancelled(call[0], task, self._lookup(call[1])[1])
                    return True
        running = self._tasks.get(task)
        if running is None or self._loop is None:
            return False
        self._loop.call_soon_threadsafe(running.cancel)
        return True

    @property
    def is_running(self) -> bool:
        """Whether any call runs or waits."""
        return bool(self._tasks) or any(group.queue for group in self.groups.values())

    def give_back(self, count: int | None = None, only: Connection | None = None) -> None:
        """Actor calls are never given back."""


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _in_context(context: Execution, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    token = current_execution.set(context)
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"a method raised StopIteration: {error!r}") from error
    finally:
        current_execution.reset(token)
