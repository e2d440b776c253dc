"""Routes of a FastAPI application that are methods of deployments' classes.

Several classes may have routes in one application. Each class is served with its own and its bases' routes, and with
those of no class.
"""

from __future__ import annotations

import contextlib
import inspect
import typing
from collections.abc import Callable, Collection, Iterator
from typing import Any

from kernel_serve.context import replica_of_process
from kernel_serve.errors import DeploymentError

_CLASS = "__serve_class__"
"""The attribute of a route's function, and of the class that defines it, with a text that identifies the class."""


async def replicas_object() -> Any:
    """Return the object of this process's replica: `self` of routes that are methods."""
    replica = replica_of_process()
    return replica and replica.servable_object


def bind_routes(app: Any, cls: type) -> None:
    """Have routes of a FastAPI application that are methods of `cls` called with the replica's object as `self`.

    Nothing happens to other applications. Call it where the class is made: in a replica, to which the class travels as
    bytes, names in annotations that are strings may be unknown.
    """
    if not hasattr(app, "include_router"):
        return
    for each in cls.__mro__[:-1]:
        endpoints = [route.endpoint for _, _, route in _routes(app.router) if _is_of(route.endpoint, each)]
        if not endpoints:
            continue
        if _CLASS not in vars(each):
            setattr(each, _CLASS, _new_name(app, each))
        for endpoint in endpoints:
            setattr(endpoint, _CLASS, vars(each)[_CLASS])
    _bind(app, _classes(cls))


def leave_own_routes(app: Any, cls: Any) -> None:
    """Remove the routes that are methods of other classes than `cls` and its bases from a FastAPI application."""
    if not hasattr(app, "include_router"):
        return
    own = _classes(cls) if inspect.isclass(cls) else ()
    for router, _, route in list(_routes(app.router)):
        if getattr(route.endpoint, _CLASS, None) not in (None, *own):
            router.routes.remove(route)


def _routes(router: Any) -> Iterator[tuple[Any, int, Any]]:
    """Yield each route with a function, with its router, and its place there."""
    for index, route in enumerate(router.routes):
        if (included := getattr(route, "original_router", None)) is not None:
            yield from _routes(included)
        elif getattr(route, "dependant", None) is not None:
            yield router, index, route


def _is_of(function: Any, cls: type) -> bool:
    """Return whether a function was defined in the body of `cls`, and not in that of another class.

    A function whose name was given to another one afterwards, as with a GET and a POST, is identified by its own name.
    """
    if getattr(function, _CLASS, None) is not None:
        return False
    if any(function is each for each in vars(cls).values()):
        return True
    name = f"{cls.__qualname__}.{getattr(function, '__name__', '')}"
    return (function.__module__, getattr(function, "__qualname__", "")) == (cls.__module__, name)


def _new_name(app: Any, cls: type) -> str:
    """Return a name for a class. A class that is defined again, as in a notebook, gets another name than before."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    known = {getattr(route.endpoint, _CLASS, "") for _, _, route in _routes(app.router)}
    return f"{name}#{sum(each.rpartition('#')[0] == name for each in known) + 1}"


def _classes(cls: type) -> list[str]:
    return [vars(each)[_CLASS] for each in cls.__mro__ if _CLASS in vars(each)]


def _bind(app: Any, classes: Collection[str]) -> None:
    from fastapi import Depends

    for router, index, route in list(_routes(app.router)):
        _read_annotations(route.dependant)
        is_bound = any(each.call is replicas_object for each in route.dependant.dependencies)
        if getattr(route.endpoint, _CLASS, None) in classes and not is_bound:
            if not _is_bound(route.endpoint):
                route.endpoint.__signature__ = _bound(route.endpoint, Depends(replicas_object))
            known = inspect.signature(type(route)).parameters
            options = {name: getattr(route, name) for name in known if hasattr(route, name)}
            router.routes[index] = type(route)(**{**options, "dependency_overrides_provider": app})


def _read_annotations(dependant: Any) -> None:
    """Replace annotations that are strings by their values, in a route and all that it depends on."""
    function = dependant.call
    if any(isinstance(each, str) for each in getattr(function, "__annotations__", {}).values()):
        with contextlib.suppress(Exception):  # FastAPI could not read these either
            function.__annotations__ = typing.get_type_hints(function, include_extras=True)
    for each in dependant.dependencies:
        _read_annotations(each)


def _is_bound(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(getattr(each.default, "dependency", None) is replicas_object for each in parameters)


def _bound(function: Callable[..., Any], self_given: Any) -> inspect.Signature:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise DeploymentError(f"{function.__qualname__}() is a route of a deployment's class: it must take self")
    first = parameters[0].replace(default=self_given, kind=inspect.Parameter.KEYWORD_ONLY)
    others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters[1:]]
    return inspect.Signature([*others, first])
