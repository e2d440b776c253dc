"""The logs of a replica: its access log, and what its user code logs."""

from __future__ import annotations

import os
import time
from typing import Any

from kernel_serve.logs.access import AccessLog
from kernel_serve.logs.places import directory, file_name
from kernel_serve.logs.rotating import RotatingFile
from kernel_serve.logs.setup import configure_logging
from kernel_serve.replica.request_intake import RequestIntake
from kernel_serve.settings import DeploymentSettings, LoggingConfig, checked


class ReplicaLogs:
    """Applies `logging_config`, at first and after each change. On the data loop."""

    def __init__(self, deployment: str, replica: str) -> None:
        self._deployment = deployment
        self._replica = replica
        self._config: LoggingConfig | None = None
        self._access: AccessLog | None = None

    def configure(self, settings: DeploymentSettings) -> None:
        """Configure the loggers of user code. Raises OSError for a directory that can't be used."""
        config = checked(LoggingConfig, settings.logging_config, "logging_config")
        if config == self._config:
            return
        configure_logging(config, self._replica)
        self._config = config
        if self._access is not None:
            self._access.close()
            self._access = None
        if config.enable_access_log:
            path = os.path.join(directory(config.logs_dir), f"access-replica-{file_name(self._replica)}.log")
            self._access = AccessLog(RotatingFile(path))

    def attach(self, intake: RequestIntake) -> None:
        """Have the intake's requests written to the access log, if it is enabled."""
        intake.on_over = self._over if self._access is not None else None

    def settle(self) -> None:
        """Return when everything that was noted is written."""
        if self._access is not None:
            self._access.settle()

    def _over(self, meta: dict[str, Any], status: int, milliseconds: float) -> None:
        kind = meta["type"]
        scope = meta.get("scope") or {}
        method = scope.get("method") or kind.upper()
        path, client = scope.get("path") or meta.get("method", ""), scope.get("client")
        place = (self._deployment, self._replica)
        assert self._access is not None
        self._access.note(
            (
                time.time(),
                meta["id"],
                method,
                path,
                meta.get("route", ""),
                status,
                milliseconds,
                None,
                client,
                *place,
                kind,
            )
        )
