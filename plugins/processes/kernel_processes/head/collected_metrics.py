"""The collected metrics: the latest of each living process, and the sums of those that have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import ProcessId
from kernel_spec.metrics import MetricsSnapshot, lasting, merged

REMEMBERED = 10_000
"""The number of ended processes that are remembered, so that a late answer is not counted again."""


class CollectedMetrics:
    """Counts every process once, regardless of when it ends and of the order of its answers.

    Snapshots of processes that live stay pickled: whoever asked adds them up.
    """

    def __init__(self) -> None:
        self._latest: dict[ProcessId, Pickled] = {}
        self._ended = MetricsSnapshot("ended", [])
        self._over = EndedProcesses(REMEMBERED)

    def answered(self, process: ProcessId, snapshot: bytes) -> None:
        """A process answered with its metrics, as a pickled snapshot."""
        if process not in self._over:
            self._latest[process] = Pickled(snapshot)

    def ending(self, process: ProcessId, snapshot: bytes) -> None:
        """A process that ends sent its last metrics."""
        self.answered(process, snapshot)
        self.ended(process)

    def ended(self, process: ProcessId) -> None:
        """A process is gone: its last metrics are kept, without gauges."""
        if process in self._over:
            return
        self._over.add(process)
        latest = self._latest.pop(process, None)
        if latest is not None:
            families, _ = merged([self._ended, MetricsSnapshot("", lasting(latest.load().families))])
            self._ended = self._ended._replace(families=families)

    def snapshots(self) -> list[MetricsSnapshot | Pickled]:
        """Return the snapshots whose sum are the metrics of the session."""
        return [self._ended, *self._latest.values()]

    def load(self) -> Iterable[MetricsSnapshot]:
        """Return the same, unpickled."""
        yield self._ended
        for snapshot in list(self._latest.values()):
            yield snapshot.load()
