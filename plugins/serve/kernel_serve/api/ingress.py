"""Put an ASGI application in front of a deployment's class."""

from __future__ import annotations

import copyreg
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from kernel_serve.errors import DeploymentError
from kernel_serve.replica.asgi_ingress import ASGI_INGRESS
from kernel_serve.replica.class_routes import bind_routes

C = TypeVar("C", bound=type)


def ingress(app: Any) -> Callable[..., Any]:
    """Have `app` answer HTTP requests and WebSockets for a class: FastAPI, Starlette, any ASGI application.

    Methods of the class can be FastAPI routes: `self` is the replica's object. `app` may be a function that takes the
    object, or nothing, and returns the application. Use it below `@serve.deployment`; without a class,
    `serve.deployment(serve.ingress(app)())` serves the application alone. Raises DeploymentError for an `app` that
    can't be served.
    """
    if not callable(app):
        raise DeploymentError(f"@serve.ingress takes an ASGI application, not a {type(app).__name__}")

    def give(cls: C | None = None) -> C:
        if cls is None:
            cls = _class_for_application()
        if not isinstance(cls, type):
            raise DeploymentError("@serve.ingress(app) is for classes; put it below @serve.deployment")
        bind_routes(app, cls)
        setattr(cls, ASGI_INGRESS, staticmethod(app) if inspect.isfunction(app) else app)
        return cls

    _let_travel()
    return give


def _class_for_application() -> Any:
    """Return a new empty class, as the one that `app` is in front of."""

    class Ingress:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self.args, self.kwargs = args, kwargs

    return Ingress


def _let_travel() -> None:
    """Teach pickle to pickle starlette's state, which all applications have, and included routers."""
    datastructures, routing = sys.modules.get("starlette.datastructures"), sys.modules.get("fastapi.routing")
    if (state := getattr(datastructures, "State", None)) is not None:
        copyreg.pickle(state, _reduce_state)
    if (included := getattr(routing, "_IncludedRouter", None)) is not None:
        copyreg.pickle(included, _reduce_included)


def _reduce_state(state: Any) -> tuple[Any, ...]:
    return type(state), (dict(state._state),)


def _reduce_included(router: Any) -> tuple[Any, ...]:
    return type(router), (router.original_router, router.include_context)
