"""Calls by handles: arguments in, a result or a stream of items out, all pickled, or in the object store if large."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from typing import Any

from kernel_serve.context import RequestContext, end_request, enter_request
from kernel_serve.errors import ServeError
from kernel_serve.logs import logger
from kernel_serve.replica.stored_results import RaisedError, StoredResults
from kernel_serve.replica.user_code import ASYNC_ITEMS, PLAIN_ITEMS, UserCode
from kernel_serve.tracebacks import told_from_the_user
from kernel_serve.wire.arguments import decode, fetch
from kernel_serve.wire.link import PIECE, Exchange
from kernel_serve.wire.pickling import dumps, loads, pack

_log = logger()


class MethodCalls:
    """Carries out calls on the user's code. Large results wait in `stored`."""

    def __init__(self, code: UserCode, application: str, deployment: str, stored: StoredResults) -> None:
        self._code = code
        self._stored = stored
        self._application = application
        self._deployment = deployment

    async def handle(self, exchange: Exchange, meta: dict[str, Any], body: bytes, end: bool) -> int:
        """Carry out one call. `meta` has its id, the method, and `stream` if it returns items.

        Returns 200, or 500 when it raised.
        """
        if not end:
            pieces = [body]
            while not end:
                _, more, end = await exchange.receive()
                pieces.append(more)
            body = b"".join(pieces)
        method = meta["method"]
        request = RequestContext(
            meta["id"], meta.get("route", ""), self._application, self._deployment, meta.get("model", ""), []
        )
        enter_request(request)
        try:
            function, kind = self._code.method(method)
            parts = meta.get("parts")
            args, kwargs = decode(body) if parts is None else await fetch(body, parts)
            result = await self._code.run(function, kind, args, kwargs)
            if meta.get("stream"):
                await self._stream(exchange, result, method)
                return 200
            check_result(self._deployment, method, kind, result)
            if (data := pack(result)) is not None:
                await exchange.send_all(None, data, end=True)
            else:
                await self._stored.offer(exchange, result)
                exchange.send(None, b"", end=True)
        except BaseException as error:  # user code may raise anything
            if exchange.closed:  # its caller has gone
                raise asyncio.CancelledError from error
            _log.debug("a call raised", deployment=self._deployment, method=method, exc_info=True)
            data, described = pickled_error(error), describe(error)
            if data or not isinstance(error, Exception) or isinstance(error, ServeError):
                exchange.send({"error": described}, data, end=True)
            else:
                await self._stored.offer(exchange, RaisedError(error, described))
                exchange.send(None, b"", end=True)
            return 500
        finally:
            end_request(request)
        return 200

    async def _stream(self, exchange: Exchange, items: Any, method: str) -> None:
        check_items(self._deployment, method, items)
        async for item in self._code.items(items):
            data = pack(item)
            if data is None:
                await self._stored.offer(exchange, item)
            else:
                await exchange.send_all({"size": len(data)} if len(data) > PIECE else None, data)
        exchange.send({"over": True}, b"", end=True)


def check_result(deployment: str, method: str, kind: int, result: Any) -> None:
    """Raise TypeError if a call without `stream=True` called a generator."""
    if kind in (ASYNC_ITEMS, PLAIN_ITEMS) or inspect.isgenerator(result):
        raise TypeError(f"{deployment}.{method}() is a generator: call it with handle.options(stream=True)")


def check_items(deployment: str, method: str, items: Any) -> None:
    """Raise TypeError if the result of a call with `stream=True` is neither a generator nor another iterator."""
    if not hasattr(items, "__aiter__") and not hasattr(items, "__next__"):
        raise TypeError(
            f"{deployment}.{method}() was called with stream=True, but returned a {type(items).__name__}: "
            "have it yield items (or return a generator), or call it without stream=True"
        )


def describe(error: BaseException) -> str:
    """Return the error's traceback, from the user's first line on, and the error."""
    frames = traceback.extract_tb(told_from_the_user(error).__traceback__)
    shown = "".join(traceback.format_list(frames))
    return f"{shown}{''.join(traceback.format_exception_only(type(error), error))}".rstrip()


def pickled_error(error: BaseException) -> bytes:
    """Return an error as bytes; b"" if it can't be pickled, or is too large for one piece.

    Unpickling calls its class with its `args`, which are not always those that it was made with.
    """
    try:
        data = dumps(error)
        if len(data) > PIECE or (type(error).__module__ != "builtins" and type(loads(data)) is not type(error)):
            return b""
    except Exception:
        return b""
    return data
