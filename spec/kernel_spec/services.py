"""The head service contract: a service of a plugin beside the head, such as a dashboard or a job queue.

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
    """Facts about the session for a service. For everything else it joins the session: `kernel.init(address)`.

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
        """Start the service, and return values for `kernel status` to show, such as an address."""
        ...

    def stop(self) -> None:
        """Stop the service, within two seconds."""
        ...
