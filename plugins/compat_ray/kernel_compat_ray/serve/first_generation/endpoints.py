"""Endpoints, which take requests. They exist without backends, and backends without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import kernel
from kernel.serve.api import run as api
from kernel.serve.api.controller_calls import ask
from kernel.serve.api.endpoints import list_endpoints
from kernel.serve.api.run_forever import run_forever
from kernel.serve.api.traffic import set_traffic
from kernel.serve.errors import DeploymentError, NotServingError
from kernel.serve.names import missing
from kernel.serve.routing.router import hear_here
from kernel.serve.values import Endpoint
from kernel_compat_ray.serve.first_generation.backends import known_backends


def init(
    http_host: str | None = None,
    http_port: int | None = None,
    *,
    start_server: bool = True,
    blocking: bool = False,
    session_options: Mapping[str, Any] | None = None,
    **more: Any,
) -> None:
    """Start Serve, and a session if none runs.

    `session_options` are arguments of `kernel.init` for that session. HTTP is served at 127.0.0.1:8000 unless another
    host or port is given, and not at all with `start_server=False`. With `blocking` the call returns at Ctrl-C.
    """
    options = {**(more.pop("ray_init_kwargs", None) or {}), **(session_options or {})}
    if more:
        raise DeploymentError(
            f"serve.init() takes no argument {next(iter(more))!r}; give those of kernel.init in session_options"
        )
    if not kernel.is_initialized():
        kernel.init(**options)
    given = {"host": http_host, "port": http_port}
    http = {name: value for name, value in given.items() if value is not None}
    api.start(None if start_server else "Disabled", http or None)
    if blocking:
        run_forever()


def create_endpoint(
    endpoint_name: str,
    route: str | None = None,
    methods: Iterable[str] = ("GET",),
    *,
    backend: str | None = None,
) -> None:
    """Make a way in: requests with one of `methods` for `route` and all paths below it; without one, for handles alone.

    All of them go to `backend`, if one is given, until `set_traffic` says otherwise; without any they are answered with
    503. What is given second counts as the backend if it does not begin with a slash and there is a backend of that
    name. Raises DeploymentError for what can't be, also when the name or the route is taken.
    """
    api.start()
    known = api.status()
    if not isinstance(endpoint_name, str) or not endpoint_name:
        raise DeploymentError(f"the name of an endpoint is a text that is not empty, not {endpoint_name!r}")
    if any(each["name"] == endpoint_name for each in known["endpoints"]):
        raise DeploymentError(
            f"there is an endpoint {endpoint_name!r} already: serve.delete_endpoint({endpoint_name!r}) frees the name"
        )
    if isinstance(route, str) and not route.startswith("/") and backend is None and route in known_backends(known):
        route, backend = None, route
    if route is not None and (not isinstance(route, str) or not route.startswith("/")):
        raise DeploymentError(f"the route of endpoint {endpoint_name!r} is a path that begins with '/', not {route!r}")
    if backend is not None and backend not in known_backends(known):
        raise NotServingError(missing("backend", backend, known_backends(known)))
    made = Endpoint(endpoint_name, route or "", (), _methods(methods), stands_alone=True)
    hear_here(ask("set_endpoint", made))
    if backend is not None:
        set_traffic(endpoint_name, {backend: 1.0})


def stat() -> dict[str, Any]:
    """Return what there is: endpoints with their traffic, and backends with their status and numbers of replicas."""
    status = api.status()
    backends = {}
    for tag in known_backends(status):
        found = status["applications"][tag]
        backends[tag] = {"status": found["status"], "message": found["message"], "replicas": found["replica_states"]}
    return {"endpoints": list_endpoints(), "backends": backends}


def _methods(methods: Iterable[str]) -> frozenset[str]:
    given = [methods] if isinstance(methods, str) else list(methods)
    if not given or not all(isinstance(each, str) and each.isalpha() for each in given):
        raise DeploymentError(f"methods of an endpoint are names such as 'GET' and 'POST', not {methods!r}")
    return frozenset(each.upper() for each in given)
