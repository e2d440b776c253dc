"""Run the user's function or object in a replica of a backend, one request or batch at a time.

A plain `def` never runs twice at a time in a replica, so that a class needs no locks; coroutines do.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request

from kernel.serve.batching.decorator import batch
from kernel.serve.context import enter_web
from kernel.serve.errors import DeploymentError
from kernel_compat_ray.serve.first_generation.accept_batch import accepts_batches
from kernel_compat_ray.serve.first_generation.requests import CallRequest, flask_request, plain_result


class BackendReplica:
    """Is the class of a backend's deployment. `reconfigure` takes the fields of its BackendConfig."""

    def __init__(self, func_or_class: Callable[..., Any], args: tuple[Any, ...]) -> None:
        is_class = inspect.isclass(func_or_class)
        self._user = func_or_class(*args) if is_class else func_or_class
        self._is_class = is_class
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="serve backend")
        self._user_config: Any = None
        name = getattr(func_or_class, "__qualname__", type(func_or_class).__name__)
        self._batched: tuple[Any, ...] = ()
        if accepts_batches(func_or_class):  # Requests of one kind go together, with one `context.web`.
            self._batched = (_batched(self._answer_calls, name), _batched(self._answer_web, name))

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer an HTTP request, or a call of a handle."""
        if args and isinstance(args[0], Request):
            enter_web(True)
            request = await flask_request(args[0])
            result = await (self._batched[1](request) if self._batched else self._run(self._user, (request,), {}))
            return plain_result(result)
        enter_web(False)
        call = CallRequest(args[0] if args else None, kwargs)
        if self._batched:
            return await self._batched[0](call)
        return await self._run(self._user, (call,), _taken(self._user, kwargs))

    def __getattr__(self, name: str) -> Any:
        """Find another method of the user's object: handles can call these, with what they are given."""
        if name.startswith("_") or not self.__dict__.get("_is_class"):
            raise AttributeError(name)
        method = getattr(self._user, name)
        if not callable(method):
            raise AttributeError(name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            enter_web(False)
            return await self._run(method, args, kwargs)

        return call

    async def reconfigure(self, config: Mapping[str, Any]) -> None:
        """Take what is set of the backend."""
        for function in self._batched:
            function.set_max_batch_size(config["max_batch_size"] or 1)
            function.set_batch_wait_timeout_s(config["batch_wait_timeout"])
        user_config = config["user_config"]
        if user_config is None or user_config == self._user_config:
            return
        self._user_config = user_config
        method = getattr(self._user, "reconfigure", None) if self._is_class else None
        if method is None:
            raise DeploymentError(
                "the backend has a user_config, but no class with a method reconfigure(self, user_config) to take it"
            )
        await self._run(method, (user_config,), {})

    async def _answer_web(self, requests: list[Any]) -> Any:
        return await self._run(self._user, (requests,), {})

    async def _answer_calls(self, requests: list[CallRequest]) -> Any:
        names = {name for request in requests for name in request.args}
        lists = {name: [request.args.get(name) for request in requests] for name in sorted(names)}
        return await self._run(self._user, (requests,), _taken(self._user, lists))

    async def _run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return await function(*args, **kwargs)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: context.run(function, *args, **kwargs))


def _batched(answer: Callable[..., Any], name: str) -> Any:
    async def handler(requests: list[Any]) -> Any:
        return await answer(requests)

    handler.__qualname__ = name
    return batch(max_batch_size=1, batch_wait_timeout_s=0.0)(handler)


def _taken(function: Callable[..., Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments that a handler has parameters for; the others it finds in its request's `args`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return dict(named)
    names = {each.name for each in parameters[1:]} | {
        each.name for each in parameters if each.kind is each.KEYWORD_ONLY
    }
    return {name: value for name, value in named.items() if name in names}
