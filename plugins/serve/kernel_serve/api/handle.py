"""Handles: calls of a deployment from Python, anywhere in the session.

All requests of a process go through its router, on the data loop. A call from another thread is handed over to it; a
caller waits for the result in its own thread, or its own event loop.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

from kernel_serve import tracing
from kernel_serve.api.responses import DeploymentResponse, DeploymentResponseGenerator
from kernel_serve.context import current_request
from kernel_serve.errors import DeploymentError
from kernel_serve.routing.loops import on_data_loop
from kernel_serve.routing.sending import HandleCall
from kernel_serve.value_checks import is_number
from kernel_serve.values import key_of

_ids = itertools.count(1)
_beginning = ("", 0)


class DeploymentHandle:
    """Calls a deployment: `handle.remote(x)` its `__call__`, `handle.method.remote(x)` another method.

    A call returns a `DeploymentResponse` at once, with `stream=True` a `DeploymentResponseGenerator`. Handles can be
    pickled and sent anywhere. `options` returns a handle with other options. Nothing is sent to the deployment before a
    call.
    """

    def __init__(
        self,
        deployment_name: str,
        app_name: str = "default",
        *,
        method_name: str = "__call__",
        stream: bool = False,
        multiplexed_model_id: str = "",
        timeout_s: float | None = None,
        retry: bool = False,
    ) -> None:
        self.deployment_name = deployment_name
        self.app_name = app_name
        self._key = key_of(app_name, deployment_name)
        self._method = method_name
        self._stream = stream
        self._model = multiplexed_model_id
        self._timeout = timeout_s
        self._retry = retry

    def options(
        self,
        *,
        method_name: str | None = None,
        stream: bool | None = None,
        multiplexed_model_id: str | None = None,
        timeout_s: float | None = None,
        retry: bool | None = None,
    ) -> DeploymentHandle:
        """Return a handle with other options; those that are not named stay.

        `timeout_s` limits a whole call, from its begin to its result. `retry`: a call may run again, once, when its
        replica died. Raises DeploymentError for a bad option.
        """
        if timeout_s is not None and (not is_number(timeout_s) or timeout_s <= 0):
            raise DeploymentError(f"timeout_s of a handle is a finite number above 0, not {timeout_s!r}")
        for name, value, kind in (
            ("method_name", method_name, str), ("multiplexed_model_id", multiplexed_model_id, str),
            ("stream", stream, bool), ("retry", retry, bool),
        ):  # fmt: skip
            if value is not None and not isinstance(value, kind):
                expected = "text" if kind is str else "True or False"
                raise DeploymentError(f"{name} of a handle is {expected}, not {value!r}")
        given = {
            "method_name": method_name,
            "stream": stream,
            "multiplexed_model_id": multiplexed_model_id,
            "timeout_s": timeout_s,
            "retry": retry,
        }
        return self._like(**{**self._options(), **{name: value for name, value in given.items() if value is not None}})

    def _options(self) -> dict[str, Any]:
        """Return the options for a handle that is like this one."""
        return {
            "method_name": self._method,
            "stream": self._stream,
            "multiplexed_model_id": self._model,
            "timeout_s": self._timeout,
            "retry": self._retry,
        }

    def _like(self, **options: Any) -> DeploymentHandle:
        return DeploymentHandle(self.deployment_name, self.app_name, **options)

    def _call(self, meta: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> HandleCall:
        return HandleCall(self._key, meta, args, kwargs, self._timeout, self._retry)

    def __getattr__(self, name: str) -> DeploymentHandle:
        if name.startswith("_"):
            raise AttributeError(name)
        handle = self.__dict__[name] = self.options(method_name=name)
        return handle

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Call the deployment. Responses of other calls among the arguments are replaced by their results.

        It raises nothing: errors of the call are raised by the response.
        """
        around = current_request()
        meta: dict[str, Any] = {"type": "call", "id": around.request_id or _new_id(), "method": self._method}
        if self._stream:
            meta["stream"] = True
        if model := self._model or around.multiplexed_model_id:
            meta["model"] = model
        if around.route:
            meta["route"] = around.route
        span = None if tracing.active is None else tracing.active.calling(meta, self._key)
        call = self._call(meta, args, kwargs)
        call.span = span
        response = DeploymentResponseGenerator(call) if self._stream else DeploymentResponse(call)
        call.prepare()
        on_data_loop(call.begin)
        return response

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise DeploymentError(
            f"a handle of {self._key} can't be called directly; use handle.remote(...), and .result() or await"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentHandle) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self._key, self._method))

    def __repr__(self) -> str:
        return f"DeploymentHandle({self.deployment_name!r}, app_name={self.app_name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.deployment_name, self.app_name, self._options())


def _rebuild(deployment: str, application: str, options: dict[str, Any]) -> DeploymentHandle:
    return DeploymentHandle(deployment, application, **options)


def _new_id() -> str:
    global _beginning
    process = os.getpid()
    if _beginning[1] != process:
        _beginning = (os.urandom(8).hex(), process)
    return f"{_beginning[0]}-{next(_ids):08x}"
