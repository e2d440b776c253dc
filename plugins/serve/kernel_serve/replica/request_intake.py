"""The intake of requests: links from routers, admission, and one task for each request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

from kernel_serve import tracing
from kernel_serve.logs import logger
from kernel_serve.metrics.replica import CANCELLED, KindMetrics, ReplicaMetrics
from kernel_serve.replica.gate import AdmissionGate
from kernel_serve.wire.link import Exchange, RequestLink

_log = logger()

Handler = Callable[[Exchange, Any, bytes, bool], Awaitable[int]]
"""Carries out a request, and returns the HTTP status with which it ended, or the corresponding one for other types."""


class RequestIntake:
    """Takes exchanges on the data loop and hands them, by their type, to `handlers`."""

    def __init__(self, gate: AdmissionGate, handlers: Mapping[str, Handler], metrics: ReplicaMetrics) -> None:
        self.gate = gate
        self._handlers = handlers
        self._kinds: dict[str, tuple[Handler, KindMetrics]] = {}
        self._metrics = metrics
        self.on_over: Callable[[Any, int, float], None] | None = None
        """Called for each finished request with its meta, its outcome as a status, and milliseconds."""
        self._links: set[RequestLink] = set()
        self._models: list[str] = []
        self._told_full: set[RequestLink] = set()
        self._tasks: dict[asyncio.Task[int], tuple[Exchange, KindMetrics, float, Any]] = {}
        self._idle = asyncio.Event()

    def add(self, link: RequestLink) -> None:
        """Add the link of a router."""
        link.load = self.gate.ongoing
        self._links.add(link)
        if self._models:
            link.notify({"models": self._models})
        if self.gate.draining:
            link.refuse_more()

    def remove(self, link: RequestLink) -> None:
        """Remove a link that is over."""
        self._links.discard(link)
        self._told_full.discard(link)

    def take(self, exchange: Exchange, meta: Any, body: bytes, end: bool) -> None:
        """Begin with a request, or refuse it."""
        gate = self.gate
        refused = gate.enter()
        link = exchange.link
        link.load = gate.ongoing
        if gate.full:
            self._told_full.add(link)
        if refused:
            self._metrics.refused(refused)
            exchange.abort({"reason": refused})
            return
        found = self._kinds.get(meta["type"]) or self._kind(meta["type"])
        if found is None:
            self._leave()
            exchange.abort({"reason": f"a replica takes no requests of type {meta['type']!r}"})
            return
        if not end and meta["type"] != "websocket":
            exchange.send(None)  # admission, for which the router waits before it sends more
        handler, metrics = found
        begun = perf_counter()
        work: Any = handler(exchange, meta, body, end)
        if tracing.active is not None and "trace" in meta:
            work = tracing.active.carried_out(work, meta)
        task: asyncio.Task[int] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = exchange, metrics, begun, meta if self.on_over is not None else None
        exchange.on_closed = lambda: self._closed(exchange, task)
        task.add_done_callback(self._done)

    def _kind(self, name: str) -> tuple[Handler, KindMetrics] | None:
        handler = self._handlers.get(name)
        if handler is None:
            return None
        found = self._kinds[name] = handler, self._metrics.kind(name)
        return found

    def _closed(self, exchange: Exchange, task: asyncio.Task[int]) -> None:
        if exchange.failure is not None:
            task.cancel()

    def _done(self, task: asyncio.Task[int]) -> None:
        exchange, metrics, begun, meta = self._tasks.pop(task)
        if not exchange.closed:
            exchange.abort({"reason": "the replica ended the request without an answer"})
        if task.cancelled():
            status = CANCELLED
        elif (error := task.exception()) is not None:
            _log.error("a request failed in the replica itself", exc_info=error)
            status = 500
        else:
            status = task.result()
        milliseconds = (perf_counter() - begun) * 1e3
        metrics.ended(status, milliseconds)
        if self.on_over is not None and meta is not None:
            self.on_over(meta, status, milliseconds)
        self._leave()

    def _leave(self) -> None:
        had_no_room = self.gate.leave()
        load = self.gate.ongoing
        if had_no_room and self._told_full:
            told, self._told_full = self._told_full, set()
            for link in told:
                link.load = load
                link.notify(None)
        if not load:
            self._idle.set()

    def tell_models(self, models: list[str]) -> None:
        """Send all routers the ids of the models that are loaded here."""
        self._models = models
        for link in self._links:
            link.notify({"models": models})

    async def drain(self, wait_seconds: float, timeout_seconds: float) -> int:
        """Take no more requests, and wait until all are answered; return how many are not, after `timeout_seconds`.

        For `wait_seconds`, requests of routers that have not learned of it yet are refused rather than lost.
        """
        self.gate.draining = True
        for link in self._links:
            link.refuse_more()
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        await asyncio.sleep(min(wait_seconds, timeout_seconds) if self.gate.ongoing else 0)
        while self.gate.ongoing and (left := deadline - asyncio.get_running_loop().time()) > 0:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), left)
            except (asyncio.TimeoutError, TimeoutError):
                break
        return self.gate.ongoing
