"""The metrics sink in its simplest useful form: it writes a file in Prometheus's text format at intervals."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from kernel_spec.metric_text import exposition
from kernel_spec.metrics import FamilySnapshot, MetricsSnapshot


class TextFileSink:
    """Writes the latest metrics to `path`, every `interval` seconds; the file is replaced atomically.

    A thread writes, so that a hanging disk does not block the head. An error of the thread is raised by the next
    `take`.
    """

    def __init__(self, *, path: str = "kernel-metrics.prom", interval: float = 15.0) -> None:
        self.interval = interval
        self._path = os.path.abspath(path)
        self._latest: Sequence[FamilySnapshot] | None = None
        self._error: OSError | None = None
        self._writer: threading.Thread | None = None

    def take(self, now: float, families: Sequence[FamilySnapshot]) -> None:
        """Pass the metrics to the writing thread. Raises the error of the last write."""
        if self._error is not None:
            raise self._error
        self._latest = families
        if self._writer is None or not self._writer.is_alive():
            self._writer = threading.Thread(target=self._write, name="kernel-metrics-file", daemon=True)
            self._writer.start()

    def close(self) -> None:
        """Wait up to a second for the last write."""
        if self._writer is not None:
            self._writer.join(1.0)
            if not self._writer.is_alive():
                self._write()  # what came as the thread was about to end

    def _write(self) -> None:
        try:
            while (families := self._latest) is not None:
                self._latest = None
                beside = f"{self._path}.{os.getpid()}"
                with open(beside, "w", encoding="utf-8") as file:
                    file.write(exposition([MetricsSnapshot("", list(families))]))
                os.replace(beside, self._path)
        except OSError as error:
            self._error = error
