"""`serve.start` with the arguments of all releases of Ray Serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernel.serve import HTTPOptions
from kernel.serve import start as start_serve
from kernel.serve.errors import DeploymentError

_OF_HTTP = {"http_host": "host", "http_port": "port"}
"""Arguments that are settings of `http_options` today."""
_REFUSED = {"tracing_config": "see tracing", "controller_options": "the controller has no options"}
_TODAY = ("proxy_location", "grpc_options", "tracing", "logging_config")


def start(
    proxy_location: Any = None, http_options: HTTPOptions | Mapping[str, Any] | None = None, *more: Any, **named: Any
) -> None:
    """Start Serve as `kernel.serve.start` does; its other arguments may follow, by place and by name.

    `http_host` and `http_port` are taken as those of `http_options`. `detached` has no effect: Serve lives as long as
    its session. Raises DeploymentError for an argument that there is not, and what `kernel.serve.start` raises.
    """
    named.pop("detached", None)
    older = {name: value for name, value in named.items() if name not in _TODAY}
    http = {}
    for name, value in older.items():
        del named[name]
        if value is None:
            continue
        if name not in _OF_HTTP:
            raise DeploymentError(f"serve.start() takes no argument {name!r}: {_REFUSED.get(name, 'see http_options')}")
        http[_OF_HTTP[name]] = value
    start_serve(proxy_location, _with(http_options, http) if http else http_options, *more, **named)


def _with(options: HTTPOptions | Mapping[str, Any] | None, given: Mapping[str, Any]) -> HTTPOptions | dict[str, Any]:
    """Return options of HTTP with other values of some of their settings."""
    return replace(options, **given) if isinstance(options, HTTPOptions) else {**(options or {}), **given}
