"""Whether requests are traced, and where the spans go: set once for all of Serve, by `serve.start(tracing=...)`."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle

import kernel
from kernel_serve import tracing
from kernel_serve.errors import DeploymentError
from kernel_serve.logs import logger
from kernel_serve.values import NAMESPACE

if TYPE_CHECKING:
    from kernel_serve.tracing.spans import Tracing

Setting = bool | str | Callable[[], Any] | None
"""How to trace.

True: by the environment variables of OpenTelemetry; False: never; a function, or its import path ("module:function"),
that returns an exporter, a processor of spans, or a list of them; None: as the variables say.
"""

_KEY = "tracing"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TELL_SECONDS = 10.0
"""The longest time in seconds to wait until all processes trace by another setting."""
_log = logger("tracing")


def store(setting: Setting) -> bool:
    """Set how processes of Serve trace that start from now on; return whether that is another setting than before.

    Raises DeploymentError for a setting that can't work.
    """
    check(setting)
    kept, data = kernel.KeyValue(NAMESPACE), cloudpickle.dumps(setting)
    if kept.get(_KEY) == data:
        return False
    kept.put(_KEY, data)
    return True


def tell(actors: Iterable[Any]) -> None:
    """Have the running processes of Serve apply the session's setting; some may have ended."""
    told = [actor.trace_anew.remote() for actor in actors]
    if told:
        kernel.wait(told, num_returns=len(told), timeout=_TELL_SECONDS)


def forget() -> None:
    """Remove the session's setting; this process traces no more."""
    kernel.KeyValue(NAMESPACE).delete(_KEY)
    if tracing.active is not None:
        tracing.active.flush()
        tracing.active = None


def check(setting: Setting) -> None:
    """Raise DeploymentError for a bad setting, and for one that needs OpenTelemetry where that is missing."""
    if setting is None or setting is False:
        return
    if setting is not True and not callable(setting) and not (isinstance(setting, str) and ":" in setting):
        raise DeploymentError(
            "tracing is True, False, or a function (or its import path, 'module:function') that returns an exporter of "
            f"spans, not {setting!r}"
        )
    try:
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError:
        raise DeploymentError(
            "tracing needs OpenTelemetry, which is not installed: pip install opentelemetry-sdk"
        ) from None


def set_up(component: str, id: str = "") -> None:
    """Begin to trace in this process, if the session's setting says so. It blocks: do not call it on an event loop.

    An error is logged, and nothing is traced: requests matter more.
    """
    begin(_stored(), component, id)


def set_up_anew(component: str, id: str = "") -> None:
    """Apply the session's present setting in this process, whatever it was before."""
    change(_stored(), component, id)


def begin(setting: Setting, component: str, id: str = "") -> None:
    """Begin to trace in this process by a setting, unless it traces already."""
    if tracing.active is None:
        tracing.active = _made(setting, component, id)


def change(setting: Setting, component: str, id: str = "") -> None:
    """Trace in this process by another setting. Requests that are under way finish their spans by either one."""
    before, now = tracing.active, _made(setting, component, id)
    if now is None and before is not None:
        now = before.silent()  # not None: code that has just looked at it may still use it
    tracing.active = now
    if before is not None:
        before.flush()


def _stored() -> Setting:
    data = kernel.KeyValue(NAMESPACE).get(_KEY)
    return pickle.loads(data) if data is not None else None  # type: ignore[no-any-return]


def _made(setting: Setting, component: str, id: str) -> Tracing | None:
    if setting is False or (setting is None and not wanted(os.environ)):
        return None
    try:
        check(setting if setting is not None else True)
        from kernel_serve.tracing.providers import provider_for
        from kernel_serve.tracing.spans import Tracing

        return Tracing(provider_for(setting, component, id))
    except Exception as error:
        _log.warning("requests are not traced here", component=component, error=str(error))
        return None


def wanted(variables: Mapping[str, str]) -> bool:
    """Return whether the environment variables of OpenTelemetry ask for traces."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = variables.get("OTEL_TRACES_EXPORTER", "")
    return exporter != "none" and bool(exporter or any(variables.get(name) for name in _ENDPOINTS))
