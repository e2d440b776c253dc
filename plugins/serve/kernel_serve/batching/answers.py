"""Run a batched handler once, and give each caller its part of the answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextvars import copy_context
from enum import Enum
from typing import Any

from kernel_serve.batching.callers import BatchCaller
from kernel_serve.errors import DeploymentError, RequestCancelledError

_END = object()


class AnswerKind(Enum):
    """Says how a handler answers: `async def` or `def` (which runs in a thread), with one list or a stream of lists."""

    ASYNC = "async"
    PLAIN = "plain"
    ASYNC_STREAM = "async stream"
    PLAIN_STREAM = "plain stream"

    @property
    def streams(self) -> bool:
        """Whether the handler yields lists."""
        return self in (AnswerKind.ASYNC_STREAM, AnswerKind.PLAIN_STREAM)

    @property
    def can_be_cancelled(self) -> bool:
        """Whether the handler can be cancelled anywhere: a thread can't."""
        return self in (AnswerKind.ASYNC, AnswerKind.ASYNC_STREAM)


def kind_of(function: Callable[..., Any]) -> AnswerKind:
    """Return how `function` answers."""
    if inspect.isasyncgenfunction(function):
        return AnswerKind.ASYNC_STREAM
    if inspect.iscoroutinefunction(function):
        return AnswerKind.ASYNC
    return AnswerKind.PLAIN_STREAM if inspect.isgeneratorfunction(function) else AnswerKind.PLAIN


async def answer(name: str, kind: AnswerKind, call: Callable[[], Any], callers: Sequence[BatchCaller]) -> None:
    """Run `call`, a handler with its arguments.

    Give each of `callers` its part, or raise the handler's error to all.
    """
    try:
        if kind is AnswerKind.ASYNC:
            _give(name, "return", await call(), callers)
        elif kind is AnswerKind.PLAIN:
            _give(name, "return", await _in_thread(call), callers)
        else:
            stream = call()
            await _give_all(name, stream if kind is AnswerKind.ASYNC_STREAM else _iterated(stream), callers)
    except asyncio.CancelledError:
        for caller in callers:
            caller.fail(RequestCancelledError(f"the batch of {name} that was to answer this was cancelled"))
        raise
    except BaseException as error:
        for caller in callers:
            caller.fail(error)


async def _give_all(name: str, stream: AsyncGenerator[Any, None], callers: Sequence[BatchCaller]) -> None:
    try:
        async for items in stream:
            _give(name, "yield", items, callers)
            if all(caller.gone for caller in callers):
                return
        for caller in callers:
            caller.end()
    finally:
        await stream.aclose()


def _give(name: str, verb: str, results: Any, callers: Sequence[BatchCaller]) -> None:
    count = len(callers)
    if isinstance(results, (str, bytes, dict, set)) or not hasattr(results, "__len__"):
        got = f"not a {type(results).__name__}"
    elif len(results) != count:
        got = f"but the list has {len(results)}"
    else:
        for caller, result in zip(callers, results, strict=True):
            caller.give(result)
        return
    raise DeploymentError(
        f"{name} is batched and got {count} requests: it must {verb} a list of {count}, one for each in order, {got}"
    )


async def _in_thread(call: Callable[[], Any]) -> Any:
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, context.run, _without_stop, call)


def _without_stop(call: Callable[[], Any]) -> Any:
    """Return what `call` returns. Raises RuntimeError in place of StopIteration, which a future can't carry."""
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError(f"the batched handler raised {error!r}") from error


async def _iterated(items: Generator[Any, None, None]) -> AsyncGenerator[Any, None]:
    """Yield what `items` yields. Each item is computed in a thread."""
    try:
        while (item := await _in_thread(lambda: next(items, _END))) is not _END:
            yield item
    finally:
        await _in_thread(items.close)
