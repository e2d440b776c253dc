"""The head service contract: something a plugin runs beside the head (a dashboard, a job queue).

`start` is called once in the head's agent, from its loop thread, after the session is ready; it must return
within a second, so real work goes to a thread or process of the service's own. `stop` is called once, at the end.
A service that raises is reported by name; the session goes on without it.

On conflict: named (those selected by `head_services=`, in order). On absence nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class HeadInfo:
    """What a service may know: it reaches everything else as any program does, with `kernel.init(address)`.

    `options` are those given under its name (`plugin_options`, the environment as text, the configuration file).
    """

    address: str
    session_directory: str
    options: Mapping[str, Any]


@runtime_checkable
class HeadService(Protocol):
    """Runs on the head. See the module's text."""

    name: str

    def start(self, head: HeadInfo) -> Mapping[str, Any]:
        """Begin, and return what `kernel status` should show (such as an address)."""
        ...

    def stop(self) -> None:
        """End, within two seconds."""
        ...
