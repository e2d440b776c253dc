"""The user's function or object in a replica: make it, find its methods, run them, and check its health."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kernel_serve import tracing
from kernel_serve.context import ReplicaRank
from kernel_serve.errors import DeploymentError
from kernel_serve.logs import logger
from kernel_serve.tracebacks import told_from_the_user

_log = logger()

ASYNC, PLAIN, ASYNC_ITEMS, PLAIN_ITEMS = range(4)
"""How a method runs: a coroutine, a function, an asynchronous generator, a generator."""

_MOST_THREADS = 128


class UserCode:
    """Holds a deployment's function, or an object of its class.

    Plain functions run in threads, so that they don't block the loop.

    `construct` may be called once; everything runs on the data loop.
    """

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], threads: int) -> None:
        self._target = target
        self._args, self._kwargs = args, kwargs
        self.name = getattr(target, "__name__", type(target).__name__)
        self.instance: Any = None
        self._methods: dict[str, tuple[Callable[..., Any], int]] = {}
        self._threads = ThreadPoolExecutor(min(threads, _MOST_THREADS), thread_name_prefix="serve request")

    async def construct(self) -> None:
        """Make the object, on the loop, so that it may begin tasks. Raises what its constructor raises."""
        if not inspect.isclass(self._target):
            self.instance = self._target
            return
        instance: Any = self._target.__new__(self._target)
        try:
            begun = instance.__init__(*self._args, **self._kwargs)
            if inspect.isawaitable(begun):  # an asynchronous constructor
                await begun
        except _USUAL:
            raise
        except BaseException as error:
            raise _left(self.name, error) from error
        self.instance = instance

    def method(self, name: str) -> tuple[Callable[..., Any], int]:
        """Return a method and how it runs. Raises DeploymentError for an unknown name."""
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = self._find(name)
        return found

    def _find(self, name: str) -> tuple[Callable[..., Any], int]:
        is_class = inspect.isclass(self._target)
        function = getattr(self.instance, name, None) if is_class or name != "__call__" else self.instance
        if not callable(function):
            known = [each for each in dir(self.instance) if not each.startswith("_") or each == "__call__"]
            names = ", ".join(each for each in known if callable(getattr(self.instance, each, None)))
            raise DeploymentError(f"deployment {self.name} has no method {name!r}; it has {names or 'none'}")
        return function, kind_of(function)

    def has(self, name: str) -> bool:
        """Return whether the object has such a method."""
        return inspect.isclass(self._target) and callable(getattr(self.instance, name, None))

    @property
    def is_callable(self) -> bool:
        """Whether it is a function, or an object with `__call__`."""
        return not inspect.isclass(self._target) or self.has("__call__")

    def takes_arguments(self, name: str) -> bool:
        """Return whether a method can be called with an argument; True if its signature can't be read."""
        function, _ = self.method(name)
        try:
            return bool(inspect.signature(function).parameters)
        except (TypeError, ValueError):
            return True

    async def run(self, function: Callable[..., Any], kind: int, args: Any, kwargs: Any) -> Any:
        """Return the result of a function, or its generator.

        Raises DeploymentError for an exception that is no Exception.
        """
        try:
            if tracing.active is not None and kind in (ASYNC, PLAIN):
                with tracing.active.user_code(f"{self.name}.{getattr(function, '__name__', '__call__')}"):
                    return await self._run(function, kind, args, kwargs)
            return await self._run(function, kind, args, kwargs)
        except _USUAL:
            raise
        except BaseException as error:
            raise _left(self.name, error) from error

    async def _run(self, function: Callable[..., Any], kind: int, args: Any, kwargs: Any) -> Any:
        if kind == ASYNC:
            return await function(*args, **kwargs)
        if kind == PLAIN:
            result = await self.in_thread(function, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        return function(*args, **kwargs)

    async def in_thread(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function in a thread, with the context of the request.

        If the calling task is cancelled meanwhile, it ends when the function has returned: a thread can't be stopped,
        and as long as it runs the request counts as under way.
        """
        context = contextvars.copy_context()
        running = self._threads.submit(context.run, _contained, function, args, kwargs)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not running.done():
                await asyncio.wait([asyncio.wrap_future(running)])
            raise

    def items(self, generator: Any) -> AsyncIterator[Any]:
        """Yield what a generator of either kind yields; it is closed at the end."""
        items = self._items(generator)
        return items if tracing.active is None else tracing.active.items(f"{self.name} yields", items)

    async def _items(self, generator: Any) -> AsyncIterator[Any]:
        if hasattr(generator, "__aiter__"):
            try:
                async for item in generator:
                    yield item
            finally:
                if hasattr(generator, "aclose"):
                    await generator.aclose()
            return
        iterator = iter(generator)
        try:
            while (item := await self.in_thread(next, iterator, _NO_MORE)) is not _NO_MORE:
                yield item
        finally:
            if hasattr(iterator, "close"):
                await self.in_thread(iterator.close)

    @property
    def takes_rank(self) -> bool:
        """Whether the object's `reconfigure` has a parameter `rank`, so that it must be called with each new rank."""
        return self.has("reconfigure") and "rank" in inspect.signature(self.method("reconfigure")[0]).parameters

    async def reconfigure(self, user_config: Any, rank: ReplicaRank) -> None:
        """Call the object's `reconfigure` with its configuration, and its rank if it takes that.

        Raises DeploymentError for a `user_config` without that method, and what the method raises.
        """
        if self.takes_rank:
            await self._call("reconfigure", user_config, rank=rank)
            return
        if user_config is None:
            return
        if not self.has("reconfigure"):
            raise DeploymentError(
                f"deployment {self.name} has a user_config, but no method reconfigure(self, user_config) to take it"
            )
        await self._call("reconfigure", user_config)

    async def check_health(self) -> None:
        """Raise what the object's own check raises, if it has one."""
        if self.has("check_health"):
            await self._call("check_health")

    async def end(self) -> None:
        """Call the object's `__del__`, which may be a coroutine; what it raises is logged.

        The object itself stays: it has too many references for its last one ever to go.
        """
        if not self.has("__del__"):
            return
        try:
            await self._call("__del__")
        except Exception as error:
            _log.error("a deployment's __del__ raised", deployment=self.name, exc_info=told_from_the_user(error))

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        function, kind = self.method(name)
        return await self.run(function, kind, args, kwargs)


_NO_MORE = object()
_USUAL = (Exception, asyncio.CancelledError, GeneratorExit)
"""Exceptions that are passed on as they are.

Others, such as SystemExit, would pass by error handlers, or end an event loop.
"""


def _left(name: str, error: BaseException) -> DeploymentError:
    return DeploymentError(
        f"deployment {name} raised {error!r}: a request can't end its replica; raise another exception, or let "
        "check_health() fail to have the replica replaced"
    )


def _contained(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function, and raise an error in place of StopIteration, which an asyncio future can't hold."""
    try:
        return function(*args, **kwargs)
    except StopIteration as error:
        raise RuntimeError(f"{getattr(function, '__name__', function)} raised StopIteration") from error


def kind_of(function: Callable[..., Any]) -> int:
    """Return how a function runs."""
    given: Any = function
    if not inspect.isroutine(given) and not inspect.isclass(given) and not inspect.iscoroutinefunction(given):
        given = given.__call__  # an object with `__call__`
    function = inspect.unwrap(given)
    if inspect.iscoroutinefunction(function):
        return ASYNC
    if inspect.isasyncgenfunction(function):
        return ASYNC_ITEMS
    return PLAIN_ITEMS if inspect.isgeneratorfunction(function) else PLAIN
