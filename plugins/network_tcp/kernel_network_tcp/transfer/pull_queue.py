"""Decide which pulls run now: urgent ones first, then small before large, and never too many bytes at once."""

from __future__ import annotations

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ObjectId


@dataclass(slots=True)
class _WaitingPull:
    size: int
    urgent: bool
    since: float


class PullQueue:
    """Queues pulls. `next` returns those to start; it decides their order at that moment. Pure."""

    def __init__(self, limits: TransferLimits) -> None:
        self._limits = limits
        self._waiting: dict[ObjectId, _WaitingPull] = {}
        self.running: dict[ObjectId, int] = {}
        """Running pulls, and their bytes."""

    def add(self, object: ObjectId, size: int, urgent: bool, now: float) -> None:
        """Put a pull of `size` bytes into the queue. With `urgent` a process waits for it now."""
        self._waiting[object] = _WaitingPull(size, urgent, now)

    def hurry(self, object: ObjectId) -> None:
        """Make a queued pull urgent."""
        if object in self._waiting:
            self._waiting[object].urgent = True

    def remove(self, object: ObjectId) -> None:
        """Forget a pull that is over or not wanted any more."""
        self._waiting.pop(object, None)
        self.running.pop(object, None)

    def next(self, now: float) -> list[ObjectId]:
        """Return the pulls to start, which count as running from now on.

        While the first in line waits for room, those behind it wait, too: else it might wait for ever.
        """
        if not self._waiting or len(self.running) >= self._limits.pulls_at_once:
            return []
        started = []
        in_flight = sum(self.running.values())
        for object in sorted(self._waiting, key=lambda object: self._rank(self._waiting[object], now)):
            size = self._waiting[object].size
            too_much = in_flight + size > self._limits.bytes_in_flight and self.running
            if too_much or len(self.running) >= self._limits.pulls_at_once:
                break
            del self._waiting[object]
            self.running[object] = size
            in_flight += size
            started.append(object)
        return started

    def __len__(self) -> int:
        return len(self._waiting)

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        assert not self._waiting.keys() & self.running.keys(), "a pull is queued and running"
        assert len(self.running) <= self._limits.pulls_at_once, f"{len(self.running)} pulls are running"
        total = sum(self.running.values())
        assert total <= self._limits.bytes_in_flight or len(self.running) == 1, f"{total} bytes are in flight"

    def _rank(self, waiting: _WaitingPull, now: float) -> tuple[bool, bool, float, float]:
        if now - waiting.since >= self._limits.overtaken_seconds:
            return False, not waiting.urgent, waiting.since, 0.0
        return True, not waiting.urgent, waiting.size, waiting.since
