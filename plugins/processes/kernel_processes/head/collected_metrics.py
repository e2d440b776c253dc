"""What processes have told of their metrics: the latest of those that live, the sums of those that have ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kernel_engine.messages.ended_processes import EndedProcesses
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.ids import ProcessId
from kernel_spec.metrics import MetricsSnapshot, lasting, merged

REMEMBERED = 10_000
"""The number of ended processes of which an answer that comes late is not counted again."""


class CollectedMetrics:
    """Counts every process once, whenever it ends and in whichever order its answers come.

    Snapshots of processes that live stay pickled: whoever asked adds them up.
    """

    def __init__(self) -> None:
        self._latest: dict[ProcessId, Pickled] = {}
        self._ended = MetricsSnapshot("ended", [])
        self._over = EndedProcesses(REMEMBERED)

    def answered(self, process: ProcessId, snapshot: bytes) -> None:
        """A process told its metrics, as a pickled snapshot."""
        if process not in self._over:
            self._latest[process] = Pickled(snapshot)

    def ending(self, process: ProcessId, snapshot: bytes) -> None:
        """A process that ends told its metrics for the last time."""
        self.answered(process, snapshot)
        self.ended(process)

    def ended(self, process: ProcessId) -> None:
        """A process is gone: what it told last stays, but for gauges."""
        if process in self._over:
            return
        self._over.add(process)
        latest = self._latest.pop(process, None)
        if latest is not None:
            families, _ = merged([self._ended, MetricsSnapshot("", lasting(latest.load().families))])
            self._ended = self._ended._replace(families=families)

    def snapshots(self) -> list[MetricsSnapshot | Pickled]:
        """Return the snapshots that add up to all of it."""
        return [self._ended, *self._latest.values()]

    def load(self) -> Iterable[MetricsSnapshot]:
        """Return the same, unpickled."""
        yield self._ended
        for snapshot in list(self._latest.values()):
            yield snapshot.load()
