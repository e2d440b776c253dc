"""One gRPC call in the proxy: send it to a replica, pass its answer back, and end it with a status."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import grpc
import grpc.aio

from kernel_serve import tracing
from kernel_serve.errors import NotServingError, RequestTimeoutError, ServeError
from kernel_serve.failing import code_of
from kernel_serve.logs import logger
from kernel_serve.proxy.grpc_routing import REQUEST_ID, Begun, GRPCRouting
from kernel_serve.rpc.messages import IncomingMessages, send_message
from kernel_serve.rpc.methods import RPCMethod
from kernel_serve.wire.link import PIECE, Exchange, ExchangeAbortedError, LinkLostError

_log = logger()

_NEARLY = 0.95
"""The share of a call's time after which an end by the client counts as its deadline.

A client cancels its call when its deadline is over. The proxy gets the deadline rounded up by as much as a hundredth,
and counts from the call's arrival.
"""
_MOST_DETAILS = 2000
"""The number of characters of a status's text that a client is sent."""

_DETOURS = 3
"""The number of other deployments to try when the deployment of a call ends before the call has begun."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}


class EndedCall(NamedTuple):
    """Describes a call that is over."""

    target: str
    path: str
    code: grpc.StatusCode
    milliseconds: float
    id: str
    peer: str
    replica: str
    span: Any


class GRPCCall:
    """Represents one call. With `async with` its errors become its status, and its replica is notified of its end.

    `on_ended` is called at its end.
    """

    def __init__(
        self, routing: GRPCRouting, on_ended: Callable[[EndedCall], None], method: RPCMethod, context: Any
    ) -> None:
        self._routing = routing
        self._on_ended = on_ended
        self._method = method
        self._context = context
        self._id = ""
        self._begun = time.perf_counter()
        self._target = ""
        self._code = grpc.StatusCode.OK
        self._span: Any = None
        self._exchange: Exchange | None = None
        self._feeding: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._late: RequestTimeoutError | None = None

    async def __aenter__(self) -> GRPCCall:
        return self

    async def open(self, given: Any) -> IncomingMessages:
        """Send the request; return the answer. `given` is its message (or EOF) if its method takes exactly one."""
        routing, method = self._routing, self._method
        begun = routing.begin(method, self._context)
        meta, self._deadline = begun.meta, begun.deadline
        self._id, self._target = meta["id"], begun.target
        if tracing.active is not None:
            self._span = tracing.active.arrived_by_grpc(method.path, meta["metadata"], begun.target, meta)
        if given is grpc.aio.EOF:
            await self._all_said()
            details = f"{method.path} takes one message, and the client has sent none (request {self._id})"
            await self._abort(grpc.StatusCode.UNIMPLEMENTED, details)
        seconds = begun.until_answer
        if seconds is not None and (method.streams_in or len(given) > PIECE):
            # the first event of such a call is its admission, which the router would take for an answer
            self._timer = asyncio.get_running_loop().call_later(seconds, self._too_late, seconds)
        if method.streams_in:
            self._exchange = await routing.open(begun, b"", False)
            self._feeding = asyncio.get_running_loop().create_task(self._feed(self._exchange))
        else:
            meta["size"] = len(given)
            routing.copy(method, begun, given)
            self._exchange = await self._sent(begun, given)
        if self._late is not None:
            raise self._late
        return IncomingMessages(self._exchange)

    async def _sent(self, begun: Begun, message: bytes) -> Exchange:
        """Send a whole request. If its deployment ends before it has begun, try another one of the endpoint's."""
        for _ in range(_DETOURS):
            try:
                return await self._routing.open(begun, message, True, self._method.repeatable)
            except NotServingError:
                target = self._routing.find(begun.meta).target
                if target == begun.target:
                    raise
                self._target = target
                begun = begun._replace(target=target)
        return await self._routing.open(begun, message, True, self._method.repeatable)

    async def _feed(self, exchange: Exchange) -> None:
        """Send a client's messages on, as fast as the replica takes them."""
        read = self._context.read
        while (message := await read()) is not grpc.aio.EOF:
            await send_message(exchange, message)
            if exchange.closed:
                return
        await self._all_said()
        exchange.send(None, b"", end=True)

    async def _all_said(self) -> None:
        """Return if the client has ended its messages; if they were cut off, wait to be cancelled.

        gRPC reads the same end in both cases. When a call is cut off, gRPC cancels its task right after that end, and
        so before another read, which finds the end again. The cancelled task then has one turn of the loop to cancel
        this one.
        """
        await self._context.read()
        await asyncio.sleep(0)

    def answering(self) -> None:
        """Stop the timer: the answer has begun. From now on only the client's deadline counts, which gRPC keeps."""
        if self._timer is not None:
            self._timer.cancel()

    def _too_late(self, seconds: float) -> None:
        self._late = RequestTimeoutError(
            f"a call of {self._method.path} was not answered within {round(seconds, 2):g} s"
        )
        if self._exchange is not None:
            self._exchange.abort({"reason": "cancelled"})

    async def finish(self, incoming: IncomingMessages) -> None:
        """Send the client the status with which the replica has ended the call."""
        status = incoming.last_meta
        trailing = ((REQUEST_ID, self._id), *status.get("trailing", ()))
        code, details = status.get("code"), status.get("details", "")
        if len(details) > _MOST_DETAILS:  # clients refuse headers that are too large, and it travels in one
            details = details[:_MOST_DETAILS] + "..."
        if code is None:
            await self._abort(grpc.StatusCode.INTERNAL, f"the answer has no status (request {self._id})")
        elif code:
            await self._abort(_CODES.get(code, grpc.StatusCode.UNKNOWN), details, trailing)
        if len(trailing) > 1:
            self._context.set_trailing_metadata(trailing)
        if details:
            self._context.set_details(details)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> None:
        try:
            await self._leave(error)
        finally:
            milliseconds = (time.perf_counter() - self._begun) * 1e3
            replica = self._exchange.link.peer if self._exchange is not None else ""
            peer = self._context.peer()
            self._on_ended(
                EndedCall(
                    self._target, self._method.path, self._code, milliseconds, self._id, peer, replica, self._span
                )
            )

    async def _leave(self, error: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._feeding is not None:
            self._feeding.cancel()
        if self._exchange is not None:
            self._exchange.abort({"reason": "cancelled"})
        if isinstance(error, asyncio.CancelledError):
            # gRPC cancels calls whose client has gone, and those whose deadline is over
            self._code = grpc.StatusCode.DEADLINE_EXCEEDED if self._is_over_time() else grpc.StatusCode.CANCELLED
        elif isinstance(error, ServeError):
            await self._refuse(self._late or error)
        elif isinstance(error, Exception) and not isinstance(error, grpc.aio.AbortError):
            _log.error("a gRPC call failed in the proxy", method=self._method.path, request_id=self._id, exc_info=error)
            await self._abort(grpc.StatusCode.INTERNAL, f"Internal error (request {self._id})")

    def _is_over_time(self) -> bool:
        return self._late is not None or (
            self._deadline is not None and time.perf_counter() - self._begun >= _NEARLY * self._deadline
        )

    async def _refuse(self, error: ServeError) -> None:
        number, more = code_of(error)
        lost = isinstance(error, (ExchangeAbortedError, LinkLostError))
        trailing = (((REQUEST_ID, self._id),) if self._id else ()) + more
        details = f"{error} (request {self._id})" if self._id else str(error)
        await self._abort(grpc.StatusCode.UNAVAILABLE if lost else _CODES[number], details, trailing)

    async def _abort(self, code: grpc.StatusCode, details: str, trailing: Any = None) -> NoReturn:
        self._code = code
        await self._context.abort(code, details, trailing or (((REQUEST_ID, self._id),) if self._id else ()))
        raise AssertionError("abort raises")
