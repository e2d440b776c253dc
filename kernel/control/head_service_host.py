"""Running the services that plugins offer for the head (a dashboard, a job queue)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.logs import Logger
from kernel_spec.services import HeadInfo, HeadService


class HeadServiceHost:
    """Starts the selected services once the session is ready, and stops them at its end.

    A service that raises is reported by name; the session goes on without it. `options_of(name)` returns what one is
    told.
    """

    def __init__(self, services: Sequence[HeadService], options_of: Callable[[str], Mapping[str, Any]]) -> None:
        self._services = list(services)
        self._options_of = options_of
        self._running: list[HeadService] = []
        self.shown: dict[str, Mapping[str, Any]] = {}
        """Service name to what it wants `kernel status` to show."""
        self._log = Logger("kernel.node")

    def start(self, head: HeadInfo) -> None:
        """Start every service, in order, each with its own options."""
        for service in self._services:
            try:
                self.shown[service.name] = dict(service.start(replace(head, options=self._options_of(service.name))))
            except Exception as error:
                self._log.warning("a head service could not start", service=service.name, error=repr(error))
                self.shown[service.name] = {"problem": f"{type(error).__name__}: {error}"}
                continue
            self._running.append(service)

    def stop(self) -> None:
        """Stop every running service, the last first."""
        while self._running:
            service = self._running.pop()
            try:
                service.stop()
            except Exception as error:
                self._log.warning("a head service could not stop", service=service.name, error=repr(error))
