"""Run the services that plugins offer for the head (a dashboard, a job queue)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.plugin_faults import summary, told
from kernel_spec.services import HeadInfo, HeadService


class HeadServiceHost:
    """Starts the selected services once the session is ready, and stops them at its end.

    A service that raises is reported by name (`on_fault(text)`); the session goes on without it. `options_of(name)`
    returns the options of a service.
    """

    def __init__(
        self,
        services: Sequence[HeadService],
        options_of: Callable[[str], Mapping[str, Any]],
        on_fault: Callable[[str], None],
    ) -> None:
        self._services = list(services)
        self._options_of = options_of
        self._on_fault = on_fault
        self._running: list[HeadService] = []
        self.shown: dict[str, Mapping[str, Any]] = {}
        """The values that each service wants `kernel status` to show, by its name."""

    def start(self, head: HeadInfo) -> None:
        """Start every service, in order, each with its own options."""
        for service in self._services:
            try:
                self.shown[service.name] = dict(service.start(replace(head, options=self._options_of(service.name))))
            except Exception as error:
                self._on_fault(told(f"head service {service.name!r}: its start()", error, "it does not run"))
                self.shown[service.name] = {"problem": summary(error)}
                continue
            self._running.append(service)

    def stop(self) -> None:
        """Stop every running service, the last first."""
        while self._running:
            service = self._running.pop()
            try:
                service.stop()
            except Exception as error:
                self._on_fault(told(f"head service {service.name!r}: its stop()", error))
