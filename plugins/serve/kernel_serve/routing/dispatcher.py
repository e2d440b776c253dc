"""Send requests to the replicas of one deployment: choose, wait, try again.

Everything here runs in the thread of one event loop. The router makes the links to the replicas that `update` returns,
and calls `linked` and `unlinked` when a link is made or lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kernel_serve import tracing
from kernel_serve.errors import (
    BackPressureError,
    DeploymentUnavailableError,
    NotServingError,
    ReplicasDiedError,
    RequestCancelledError,
    RequestError,
    RequestTimeoutError,
    ServeError,
)
from kernel_serve.logs import logger
from kernel_serve.routing.chooser import Candidate, Chooser
from kernel_serve.routing.request_queue import RequestQueue
from kernel_serve.routing.tally import RequestTally
from kernel_serve.values import Replica, ReplicaSet
from kernel_serve.wire.link import Exchange, ExchangeAbortedError, RequestLink

_log = logger()
REFUSALS = ("busy", "draining")
"""Reasons of a replica for not beginning with a request, which may go elsewhere then."""


class RoutedRequest:
    """Represents a request under way.

    `on_first(exchange)` is called when a replica has begun to answer, or else `on_failure(error)`.

    `meta`, `body` and `end` are its first event; a "model" in `meta` is the one that its replica should have.
    `repeatable`: it may be sent again, once, when its replica died.
    """

    __slots__ = (
        "body", "died_under", "end", "exchange", "meta", "model", "on_failure", "on_first", "over", "repeatable",
        "span", "timer", "tried", "waits_since",
    )  # fmt: skip

    def __init__(
        self,
        meta: Any,
        body: bytes,
        end: bool,
        on_first: Callable[[Exchange], None],
        on_failure: Callable[[Exception], None],
        repeatable: bool = False,
    ) -> None:
        self.meta = meta
        self.body = body
        self.end = end
        self.on_first = on_first
        self.on_failure = on_failure
        self.model: str = meta.get("model", "")
        self.repeatable = repeatable
        self.tried: tuple[str, ...] = ()
        """The replicas that had it and did not answer it."""
        self.died_under: tuple[str, ...] = ()
        """The replicas that died while they had it."""
        self.exchange: Exchange | None = None
        self.over = False
        """Whether it is answered or given up."""
        self.timer: asyncio.TimerHandle | None = None
        self.span: Any = None
        """The span of its way to a replica, where requests are traced."""
        self.waits_since = 0.0
        """The time at which it joined the queue, by the monotonic clock; 0 if it has not waited."""

    def fail(self, error: Exception) -> None:
        """Call `on_failure`, unless it is over."""
        if not self.over:
            self.finish()
            self.on_failure(error)

    def finish(self) -> None:
        """Mark it as over, and stop its timer."""
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Dispatcher:
    """Sends the requests for one deployment. `starving()` is called when one waits and there is no replica at all."""

    def __init__(self, key: str, node: str, random: Random, starving: Callable[[], None]) -> None:
        self.key = key
        self.chooser = Chooser(random, node)
        self.queue: RequestQueue[RoutedRequest] = RequestQueue(key)
        self.replica_set: ReplicaSet | None = None
        self.links: dict[str, RequestLink] = {}
        self.tally = RequestTally()
        self._starving = starving

    # -- requests --------------------------------------------------------------------------------------------------

    def submit(self, request: RoutedRequest, timeout: float | None = None) -> None:
        """Send a request, now or when a replica has room. `timeout` is in seconds, until the begin of the answer."""
        self.tally.submitted += 1
        if tracing.active is not None:
            request.span = tracing.active.queued(request.meta, self.key)
        if timeout is not None:
            request.timer = asyncio.get_running_loop().call_later(timeout, self._too_late, request, timeout)
        if self.replica_set is not None and not self.replica_set.exists:
            self._fail(request, _missing(self.replica_set))
            return
        candidate = self.chooser.choose(request.model)
        if candidate is not None:
            self._send(request, candidate)
            return
        if self.replica_set is not None and self.replica_set.paused:
            self._fail(request, _paused(self.replica_set))
            return
        try:
            self.queue.join(request)
        except BackPressureError as error:
            self._fail(request, error)
            return
        request.waits_since = time.monotonic()
        if not self.chooser.candidates:
            self._starving()

    async def open(
        self, meta: Any, body: bytes = b"", end: bool = True, timeout: float | None = None, repeatable: bool = False
    ) -> Exchange:
        """Send a request; return its exchange as soon as a replica has begun to answer.

        `timeout` is in seconds, None for that of the deployment. Raises RequestError or NotServingError if it fails. If
        the calling task is cancelled, the request is cancelled.
        """
        answered: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()

        def on_first(exchange: Exchange) -> None:
            if answered.done():
                exchange.abort({"reason": "cancelled"})
            else:
                answered.set_result(exchange)

        def on_failure(error: Exception) -> None:
            if not answered.done():
                answered.set_exception(error)

        request = RoutedRequest(meta, body, end, on_first, on_failure, repeatable)
        self.submit(request, self.request_timeout if timeout is None else timeout)
        try:
            return await answered
        except asyncio.CancelledError:
            if answered.done() and not answered.cancelled() and answered.exception() is None:
                answered.result().abort({"reason": "cancelled"})
            self.cancel(request)
            raise

    @property
    def request_timeout(self) -> float | None:
        """The deployment's `request_timeout_s`; None without one, or while the deployment is unknown."""
        return self.replica_set.request_timeout_s if self.replica_set is not None else None

    def cancel(self, request: RoutedRequest, error: RequestError | None = None) -> None:
        """Cancel a request that was submitted here; it fails with `error`, or RequestCancelledError."""
        if request.over:
            return
        self.queue.leave(request)
        exchange = request.exchange
        self._fail(request, error or RequestCancelledError(f"a request for {self.key} was cancelled"))
        if exchange is not None:
            exchange.abort({"reason": "cancelled"})

    def _fail(self, request: RoutedRequest, error: Exception) -> None:
        if not request.over:
            self.tally.fail(error)
            if request.span is not None:
                self._found(request, error)
            request.fail(error)

    def _too_late(self, request: RoutedRequest, timeout: float) -> None:
        waited = "was not begun" if request.exchange is None else "was not answered"
        message = self.replica_set.message if self.replica_set is not None else ""
        why = "" if self.chooser.candidates else f": there is no replica{_because(message)}"
        self.cancel(request, RequestTimeoutError(f"a request for {self.key} {waited} within {timeout:g} s{why}"))

    @staticmethod
    def _found(request: RoutedRequest, error: Exception | None = None, replica: str = "") -> None:
        span, request.span = request.span, None
        if tracing.active is not None:
            tracing.active.over(span, error, replica=replica)

    def _send(self, request: RoutedRequest, candidate: Candidate) -> None:
        id = candidate.replica.id
        if request.span is not None:
            self._found(request, None, id)
        exchange = self.links[id].open(request.meta, request.body, request.end)
        candidate.sent += 1
        request.exchange = exchange
        exchange.on_closed = lambda: self._ended(candidate, exchange)
        exchange.wake = lambda: self._heard(request, exchange, id)

    def _heard(self, request: RoutedRequest, exchange: Exchange, id: str) -> None:
        exchange.wake = None
        if request.over:
            return
        if exchange.has_event:
            request.finish()
            request.on_first(exchange)
            return
        request.exchange = None
        failure = exchange.failure or ServeError("the replica ended the exchange without an answer")
        refused = isinstance(failure, ExchangeAbortedError)
        if refused and failure.reason in REFUSALS:  # type: ignore[attr-defined]
            if failure.reason == "draining" and id in self.chooser.candidates:  # type: ignore[attr-defined]
                self.chooser.candidates[id].reachable = False
        else:
            request.died_under = (*request.died_under, id)
            if refused or not request.repeatable or len(request.died_under) > 1:
                self._fail(request, self._died(request, failure))
                return
        self.tally.retry(failure.reason if refused else "lost")  # type: ignore[attr-defined]
        request.tried = (*request.tried, id)
        if tracing.active is not None:
            request.span = tracing.active.queued(request.meta, self.key)
        self._again(request)

    def _died(self, request: RoutedRequest, failure: Exception) -> RequestError:
        """Return the error for a request that is not sent again after replicas died while they had it."""
        *before, last = request.died_under
        if not before:
            return DeploymentUnavailableError(
                f"replica {last} of {self.key} was lost while it had the request ({failure}); "
                "it may or may not have been carried out"
            )
        meta = request.meta
        _log.error(
            "two replicas died while they had a request, so it is not sent again", deployment=self.key,
            route=meta.get("route", ""), request_id=meta.get("id", ""), what=_what(meta),
            replicas=list(request.died_under),
        )  # fmt: skip
        return ReplicasDiedError(
            f"replicas {before[0]} and {last} of {self.key} died while they had the request ({failure}), so it is not "
            "sent again: it may be what ends them"
        )

    def _again(self, request: RoutedRequest) -> None:
        if self.replica_set is not None and not self.replica_set.exists:
            self._fail(request, _missing(self.replica_set))
            return
        candidate = self.chooser.choose(request.model, request.tried)
        if candidate is not None:
            self._send(request, candidate)
        elif self.replica_set is not None and self.replica_set.paused:
            self._fail(request, _paused(self.replica_set))
        else:
            self.queue.rejoin(request)
            request.waits_since = time.monotonic()
            if not self.chooser.candidates:
                self._starving()

    def _ended(self, candidate: Candidate, exchange: Exchange) -> None:
        candidate.sent -= 1
        if candidate.load and exchange.failure is None:
            candidate.load -= 1  # its last report counted this request
        if len(self.queue):
            self.serve_line()

    def serve_line(self) -> None:
        """Send waiting requests, as long as replicas have room."""
        while len(self.queue) and (candidate := self.chooser.choose()) is not None:
            request = self.queue.next()
            assert request is not None
            if request.waits_since:
                self.tally.waits.observe((time.monotonic() - request.waits_since) * 1e3)
                request.waits_since = 0.0
            if request.model or request.tried:
                candidate = self.chooser.choose(request.model, request.tried) or candidate
            self._send(request, candidate)

    # -- news ------------------------------------------------------------------------------------------------------

    def update(self, replica_set: ReplicaSet) -> tuple[list[Replica], list[Replica]]:
        """Take the new replica set; return the replicas to link to, and those to forget."""
        were_unknown, self.replica_set = self.replica_set is None, replica_set
        self.queue.limit = replica_set.max_queued_requests
        new, gone = self.chooser.update(replica_set.replicas)
        for replica in new:
            self.chooser.candidates[replica.id].reachable = replica.id in self.links
        if not replica_set.exists or replica_set.paused:
            while (request := self.queue.next()) is not None:
                self._fail(request, _paused(replica_set) if replica_set.exists else _missing(replica_set))
        elif not replica_set.replicas and len(self.queue):
            self._starving()
        room = sum(each.max_ongoing_requests for each in replica_set.replicas)
        while were_unknown and (request := self.queue.last_of_too_many(room)) is not None:
            self._fail(request, self.queue.refusal())  # it came before the limit was known
        self.serve_line()
        return new, gone

    def linked(self, id: str, link: RequestLink) -> None:
        """Add the link to a replica."""
        self.links[id] = link
        link.peer = id
        if id in self.chooser.candidates:
            link.actor = self.chooser.candidates[id].replica.actor
            self.chooser.candidates[id].reachable = True
            self.serve_line()

    def unlinked(self, id: str) -> None:
        """Remove the link to a replica, which is lost."""
        self.links.pop(id, None)
        if id in self.chooser.candidates:
            self.chooser.candidates[id].reachable = False

    def on_load(self, id: str, load: int) -> None:
        """Take the number of requests that a replica reports."""
        candidate = self.chooser.candidates.get(id)
        if candidate is not None:
            candidate.load = load
            if len(self.queue) and candidate.takes_more:
                self.serve_line()

    def on_notice(self, id: str, said: dict[str, Any] | None) -> None:
        """Take a replica's notice that it drains, or which models it has loaded."""
        candidate = self.chooser.candidates.get(id)
        if candidate is None or said is None:
            return
        if said.get("draining"):
            candidate.reachable = False
        if "models" in said:
            candidate.models = tuple(said["models"])

    def numbers(self) -> tuple[int, dict[str, int]]:
        """Return the number of requests that wait here, and the numbers that replicas have not answered, by id."""
        return len(self.queue), {id: each.sent for id, each in self.chooser.candidates.copy().items()}


def _missing(replica_set: ReplicaSet) -> NotServingError:
    return NotServingError(f"there is no deployment {replica_set.key}{_because(replica_set.message)}")


def _paused(replica_set: ReplicaSet) -> DeploymentUnavailableError:
    return DeploymentUnavailableError(f"nothing can answer the request{_because(replica_set.message)}")


def _what(meta: Mapping[str, Any]) -> str:
    """Return the method of a request, with its path if it has one."""
    scope = meta.get("scope")
    return f"{scope.get('method', '')} {scope.get('path', '')}".strip() if scope else str(meta.get("method", ""))


def _because(message: str) -> str:
    return f": {message}" if message else ""
