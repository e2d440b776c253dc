"""Run the batches of one instance on an event loop: callers wait, and a task of the handler answers them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
from time import monotonic
from typing import Any

from kernel_serve.batching.answers import AnswerKind, answer
from kernel_serve.batching.arguments import Arguments, BatchParameters
from kernel_serve.batching.callers import END, Awaiting, BatchCaller, StreamingCaller
from kernel_serve.batching.queue import BatchQueue
from kernel_serve.batching.settings import BatchSettings
from kernel_serve.context import RequestContext, current_request, end_request, enter_batch, enter_request
from kernel_serve.errors import DeploymentError
from kernel_serve.metrics.models import BatchMetrics


class Batcher:
    """Runs the queue of one handler of one instance, on the running event loop."""

    def __init__(
        self,
        name: str,
        handler: Callable[..., Any],
        kind: AnswerKind,
        parameters: BatchParameters,
        settings: BatchSettings,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._name = name
        self._handler = handler
        self._kind = kind
        self._parameters = parameters
        self._settings = settings
        self._queue = BatchQueue(settings)
        self._timer: asyncio.Handle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics = BatchMetrics(name)

    async def call(self, arguments: Arguments) -> Any:
        """Return the result for `arguments` of the batch that they are in. Raises what the handler raises."""
        caller = Awaiting(arguments, monotonic(), current_request(), copy_context())
        caller.result = self.loop.create_future()
        self._wait(caller)
        try:
            return await caller.result
        except asyncio.CancelledError:
            self._leave(caller)
            raise

    async def stream(self, arguments: Arguments) -> AsyncIterator[Any]:
        """Yield what the batch of `arguments` yields for them. Raises what the handler raises."""
        caller = StreamingCaller(arguments, monotonic(), current_request(), copy_context())
        self._wait(caller)
        try:
            while (item := await caller.next_item()) is not END:
                yield item
        finally:
            self._leave(caller)

    def settings_changed(self) -> None:
        """Apply the changed settings to waiting requests. May be called from any thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._advance)

    def _wait(self, caller: BatchCaller) -> None:
        self._check_size(caller)
        if self._queue.put(caller):
            self._advance()
        elif self._timer is None:
            self._set_timer()

    def _check_size(self, caller: BatchCaller) -> None:
        size_of, most = self._settings.size_of, self._settings.max_batch_size
        if size_of is not None and (size := size_of([caller.value])) > most:
            raise DeploymentError(
                f"a request to {self._name} has size {size} by its batch_size_fn, but max_batch_size is {most}: "
                "send less at once, or raise max_batch_size"
            )

    def _leave(self, caller: BatchCaller) -> None:
        """Remove a caller that has gone from the queue or its batch.

        A batch without other waiting callers is cancelled.
        """
        if caller.gone:
            return
        caller.gone = True
        if not caller.batch:
            self._queue.discard(caller)
        elif self._kind.can_be_cancelled and all(each.gone for each in caller.batch):
            assert caller.task is not None
            caller.task.cancel()

    def _advance(self) -> None:
        """Start the batches that are due, and set the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            while batch := self._queue.take(monotonic()):
                self._start(batch)  # type: ignore[arg-type]
        except Exception as error:  # The user's batch_size_fn raised it.
            for item in self._queue.take_all():
                item.fail(error)  # type: ignore[attr-defined]
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._queue.due()
        if due is None:
            return
        delay = due - monotonic()
        # Without a wait, requests of the same turn of the loop still go together.
        self._timer = self.loop.call_later(delay, self._advance) if delay > 0 else self.loop.call_soon(self._advance)

    def _start(self, callers: Sequence[BatchCaller]) -> None:
        task = callers[0].context.run(self.loop.create_task, self._run(callers))
        for caller in callers:
            caller.batch = callers
            caller.task = task
        self._tasks.add(task)  # The loop itself keeps no strong reference.
        task.add_done_callback(self._tasks.discard)

    async def _run(self, callers: Sequence[BatchCaller]) -> None:
        begun = monotonic()
        self._metrics.sizes.observe(len(callers))
        self._metrics.waits.observe((begun - callers[0].since) * 1e3)
        requests = tuple([caller.request for caller in callers])
        together = _request_of_batch(requests[0])
        enter_request(together)
        enter_batch(requests)
        lists, named = self._parameters.of_batch([caller.arguments for caller in callers])
        try:
            await answer(self._name, self._kind, lambda: self._handler(*lists, **named), callers)
        finally:
            self._metrics.times.observe((monotonic() - begun) * 1e3)
            end_request(together)
            self._queue.finished()
            self._advance()


def _request_of_batch(first: RequestContext) -> RequestContext:
    """Return a request like `first` that ends with the batch: what the batch borrows is for all of it."""
    return RequestContext(
        first.request_id, first.route, first.application, first.deployment, first.multiplexed_model_id, []
    )
