"""gRPC calls, carried out by the methods of the user's object: one message or a stream of them, in and out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from kernel_serve.context import RequestContext, end_request, enter_request
from kernel_serve.errors import DeploymentError, said_by
from kernel_serve.failing import CALLS_FAIL, code_of
from kernel_serve.logs import logger
from kernel_serve.replica.grpc_context import AbortError, GRPCContext
from kernel_serve.replica.user_code import ASYNC_ITEMS, PLAIN, PLAIN_ITEMS, UserCode
from kernel_serve.rpc.messages import (
    INTERNAL,
    INVALID_ARGUMENT,
    UNAVAILABLE,
    UNIMPLEMENTED,
    UNKNOWN,
    IncomingMessages,
    send_message,
)
from kernel_serve.rpc.methods import RPCMethod, methods_of
from kernel_serve.tracebacks import told_from_the_user
from kernel_serve.wire.link import Exchange

_log = logger()

_END = object()
_OURS = (UNKNOWN, INTERNAL, UNAVAILABLE)
"""Statuses for failures of the deployment rather than of the request."""
CONTEXTS = ("context", "grpc_context")
"""Names of the parameter that takes the context. A method without one is called with its request alone."""


class GRPCCalls:
    """Carries out gRPC calls on the user's code. `/package.Service/Name` is its method `Name`."""

    def __init__(self, code: UserCode, application: str, deployment: str) -> None:
        self._code = code
        self._application = application
        self._deployment = deployment
        self._wants_context: dict[str, bool] = {}

    async def handle(self, exchange: Exchange, meta: dict[str, Any], body: bytes, end: bool) -> int:
        """Carry out one call. `meta` has its id, the method's path, the import path of its service, and metadata.

        Returns 200, 500 for a failure of the deployment, or else 400.
        """
        request = RequestContext(
            meta["id"], meta.get("route", ""), self._application, self._deployment, meta.get("model", ""), []
        )
        enter_request(request)
        context = GRPCContext(meta["metadata"], meta.get("seconds"), meta.get("peer", ""), lambda: exchange.closed)
        incoming = IncomingMessages(exchange, meta, body, end)
        failed = False
        try:
            method = methods_of(meta["adder"], meta.get("app_dir"))[meta["method"]]
            last = await self._answer(exchange, method, incoming, context)
        except AbortError:
            last = b""
        except _RefusedError as refused:
            context.set_code(refused.code)
            context.set_details(str(refused))
            last = b""
        except BaseException as error:  # user code may raise anything
            if exchange.closed:  # the client has gone, or the time is over
                raise asyncio.CancelledError from error
            _log.error(
                "a gRPC call raised", deployment=self._deployment, request_id=request.request_id,
                method=meta["method"], exc_info=told_from_the_user(error),
            )  # fmt: skip
            if not context.code_number():
                _tell(context, error, request.request_id)
                failed = True
            last = b""
        finally:
            end_request(request)
        status: dict[str, Any] = {
            "code": context.code_number(), "details": context.details(), "trailing": context.trailing_metadata(),
        }  # fmt: skip
        if last is not None and not status["code"]:
            status["size"] = len(last)
        exchange.send(status, last if "size" in status and last else b"", end=True)
        return 200 if not status["code"] else 500 if failed or status["code"] in _OURS else 400

    async def _answer(
        self, exchange: Exchange, method: RPCMethod, incoming: IncomingMessages, context: GRPCContext
    ) -> bytes | None:
        """Carry out a call, and send the messages of a stream; return the one message of an answer without stream."""
        try:
            function, kind = self._code.method(method.name)
        except DeploymentError as error:
            raise _RefusedError(UNIMPLEMENTED, str(error)) from error
        args: list[Any] = [await self._argument(method, kind, incoming)]
        if self._takes_context(method.name, function):
            args.append(context)
        result = await self._code.run(function, kind, args, {})
        if not method.streams_out:
            if kind in (ASYNC_ITEMS, PLAIN_ITEMS):
                raise TypeError(f"{method.name} is a generator, but {method.path} answers with one message")
            return self._encoded(method, result)
        if not hasattr(result, "__aiter__") and not hasattr(result, "__iter__"):
            raise TypeError(f"{method.path} streams, but {method.name} returned a {type(result).__name__}")
        async for item in self._code.items(result):
            await send_message(exchange, self._encoded(method, item))
        return None

    async def _argument(self, method: RPCMethod, kind: int, incoming: IncomingMessages) -> Any:
        if not method.streams_in:
            message = await incoming.next()
            if message is None:
                raise _RefusedError(INVALID_ARGUMENT, f"{method.path} was called without a message")
            return _decoded(method, message)
        messages = _messages(method, incoming)
        if kind in (PLAIN, PLAIN_ITEMS):
            return _iterated(messages, asyncio.get_running_loop())
        return messages

    def _takes_context(self, name: str, function: Callable[..., Any]) -> bool:
        found = self._wants_context.get(name)
        if found is None:
            parameters = list(inspect.signature(function).parameters)
            found = self._wants_context[name] = len(parameters) > 1 and parameters[1] in CONTEXTS
        return found

    @staticmethod
    def _encoded(method: RPCMethod, result: Any) -> bytes:
        try:
            return method.encode(result)
        except Exception as error:
            raise TypeError(
                f"{method.path} can't answer with a {type(result).__name__}: it is not its message ({error})"
            ) from error


def _tell(context: GRPCContext, error: BaseException, request_id: str) -> None:
    """End a call that raised `error`. The failure of a call by a handle becomes its own."""
    if isinstance(error, CALLS_FAIL):
        code, trailing = code_of(error)
        context.set_code(code)
        context.set_details(f"{said_by(error)} (request {request_id})")
        context.set_trailing_metadata((*context.trailing_metadata(), *trailing))
    else:
        context.set_code(INTERNAL)
        context.set_details(f"Internal error (request {request_id})")


class _RefusedError(Exception):
    """The call can't be carried out; the text is for the client."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _decoded(method: RPCMethod, message: bytes) -> Any:
    try:
        return method.decode(message)
    except Exception as error:
        raise _RefusedError(
            INVALID_ARGUMENT, f"{method.path} was called with {len(message)} bytes that are not its message: {error}"
        ) from error


async def _messages(method: RPCMethod, incoming: IncomingMessages) -> AsyncIterator[Any]:
    while (message := await incoming.next()) is not None:
        yield _decoded(method, message)


def _iterated(messages: Any, loop: asyncio.AbstractEventLoop) -> Iterator[Any]:
    """Yield what `messages` yields on `loop`, in the calling thread."""
    while (item := asyncio.run_coroutine_threadsafe(_next(messages), loop).result()) is not _END:
        yield item


async def _next(messages: Any) -> Any:
    return await anext(messages, _END)
