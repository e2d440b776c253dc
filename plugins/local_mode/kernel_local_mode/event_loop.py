"""Run the event loop of an async actor in local mode, in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from kernel.runtime.execution_context import Execution
from kernel.runtime.object_ref import ObjectRef
from kernel.runtime.streams import resolve_future
from kernel_engine.objects.futures import call_in
from kernel_engine.one_process.call_threads import CallThreads
from kernel_engine.one_process.generators import Generators
from kernel_engine.one_process.transport import InProcessChannel
from kernel_engine.tasks.task import Task
from kernel_engine.tasks.task_arguments import TaskArguments
from kernel_local_mode.concurrency import Picked

THREAD_NAME = "kernel-local-loop"
_POOL_LIMIT = 64
_END = object()


class AsyncActor(Protocol):
    """Offers the loop what it requires of its actor."""

    def construct(self) -> tuple[int, bytes] | None:
        """Run the constructor; return its failure, or None."""

    def pick(self) -> Picked | None:
        """Take the next call that may run. Under the lock."""

    def lookup(self, task: Task) -> tuple[Callable[..., Any], str]:
        """Return the method a call names, and what errors call it."""

    def over(self, task: Task, channel: InProcessChannel, error: BaseException | None, why: str) -> None:
        """Finish a call, with `error` if it raised. If `why` is not empty, it is the reason to end the actor."""


class LocalLoop:
    """Runs the constructor and `async def` methods of one actor; its plain methods in at most `threads` beside it.

    `constructed(failure)` is called in the loop's thread, with None when the constructor has returned.
    """

    def __init__(
        self,
        actor: AsyncActor,
        constructed: Callable[[tuple[int, bytes] | None], None],
        *,
        threads: int,
        lock: threading.RLock,
        calls: CallThreads,
        arguments: TaskArguments,
        streaming: Generators,
    ) -> None:
        self._actor = actor
        self._constructed = constructed
        self._lock = lock
        self._calls = calls
        self._arguments = arguments
        self._streaming = streaming
        self._stopped = False
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._coroutines: dict[bytes, asyncio.Task[None]] = {}
        self._in_pool = 0
        self._pool = ThreadPoolExecutor(min(_POOL_LIMIT, threads), "kernel-local-call")
        self.thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def start(self) -> None:
        """Start the thread; it constructs the actor first."""
        self.thread.start()

    def stop(self) -> None:
        """End the loop; what runs on it is abandoned. Under the lock."""
        self._stopped = True
        call_in(self._loop, self._ended.set)

    def kick(self) -> None:
        """Look for calls to start."""
        call_in(self._loop, self._start_more)

    def cancel(self, task: bytes) -> bool:
        """Cancel a running call; return whether it runs here."""
        running = self._coroutines.get(task)
        if running is None:
            return False
        call_in(self._loop, running.cancel)
        return True

    def is_idle(self, seconds: float) -> bool:
        """Return whether nothing would ever happen on the loop by itself: no timers, no sockets, no threads."""
        answer: list[bool] = []
        asked = threading.Event()

        def look() -> None:
            loop: Any = self._loop
            try:
                busy = loop._ready or loop._scheduled or self._in_pool or len(loop._selector.get_map()) > 1
            except AttributeError:
                busy = True  # A loop other than asyncio's does not tell.
            answer.append(not busy)
            asked.set()

        # The question itself wakes the loop and keeps it busy: look again after that.
        call_in(self._loop, lambda: self._loop.call_soon(look))
        return (asked.wait(seconds) and answer[0]) or self._loop.is_closed()

    # -- in the loop's thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _main(self) -> None:
        failure = self._actor.construct()
        self._constructed(failure)
        if failure is None:
            self._start_more()
            await self._ended.wait()

    def _start_more(self) -> None:
        while True:
            with self._lock:
                picked = None if self._stopped else self._actor.pick()
            if picked is None:
                return
            self._coroutines[picked.task.id] = self._loop.create_task(self._call(picked))

    async def _call(self, picked: Picked) -> None:
        actor, task, runner, channel, place = self._actor, picked.task, picked.runner, picked.channel, picked.place
        connection: Any = channel
        raised: BaseException | None
        name, begun, raised, why, failed = task.name, time.time(), None, "", True
        try:
            if not self._calls.begin(task, thread=0):
                return
            place.settle(Execution(task.id, name, task.attempt))
            function, name = actor.lookup(task)
            slots = self._arguments.message(task)
            args, kwargs, _ = runner.arguments(connection, task.arguments, slots)
            value = function(*args, **kwargs)
            if inspect.isawaitable(value) and not isinstance(value, ObjectRef):
                value = await value
            if task.definition.returns < 0:
                await self._generate(picked, value, name)
            else:
                runner.send_result(connection, task.id, task.definition.returns, value, name)
            failed = False
        except asyncio.CancelledError:
            runner.send_cancelled(connection, task.id, name)
        except BaseException as error:
            raised, why = error, self._calls.report(task, name, runner, channel, error)
        finally:
            self._coroutines.pop(task.id, None)
            self._calls.traced(name, begun, task, failed)
            actor.over(task, channel, raised, why)

    async def _in_thread(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        context = copy_context()
        self._in_pool += 1
        try:
            return await self._loop.run_in_executor(
                self._pool, lambda: context.run(_without_stop_iteration, function, args, kwargs)
            )
        finally:
            self._in_pool -= 1

    async def _generate(self, picked: Picked, value: Any, name: str) -> None:
        task, runner, stream = picked.task, picked.runner, picked.task.stream
        assert stream is not None
        connection: Any = picked.channel
        if not hasattr(value, "__aiter__") and not hasattr(value, "__iter__"):
            raise TypeError(f"{name}() must return a generator to be streamed, but returned a {type(value).__name__}")
        items = value if hasattr(value, "__aiter__") else self._from_threads(iter(value))
        limit, index = task.definition.backpressure, 0
        try:
            async for item in items:
                index += 1
                runner.send_item(connection, task.id, index, item, name)
                if limit:
                    await self._taken(task, index - limit + 1)
                if stream.closed:
                    break
        finally:
            await items.aclose()
        runner.send_end(connection, task.id)

    async def _from_threads(self, items: Any) -> Any:
        while (item := await self._in_thread(next, (items, _END), {})) is not _END:
            yield item

    async def _taken(self, task: Task, least: int) -> None:
        """Wait until the consumer has taken `least` items."""
        stream = task.stream
        assert stream is not None
        while not stream.closed and stream.taken < least:
            arrival = self._loop.create_future()
            wake = partial(call_in, self._loop, partial(resolve_future, arrival))
            self._streaming.when_taken(task.id, wake)
            if not stream.closed and stream.taken < least:
                await arrival


def _without_stop_iteration(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"a method raised StopIteration: {error!r}") from error
