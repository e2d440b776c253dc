"""The measures of a run: real time for each decision, simulated time for each piece of work."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

from kernel_simulation.distributions import FOREVER
from kernel_simulation.load import Work
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean, median, 95th and 99th percentile and maximum of some numbers (all zero for none)."""

    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Summary:
        """Return the summary of `numbers`."""
        if not numbers:
            return cls()
        ordered = sorted(numbers)
        last = len(ordered) - 1
        at = [ordered[round(share * last)] for share in (0.5, 0.95, 0.99, 1.0)]
        return cls(sum(ordered) / len(ordered), *at)


class Stopwatch:
    """The duration of each decision, by kind of event, in nanoseconds."""

    def __init__(self) -> None:
        self.taken: dict[type, array[int]] = {}

    def add(self, event: type, nanoseconds: int) -> None:
        """Note one decision."""
        taken = self.taken.get(event)
        if taken is None:
            taken = self.taken[event] = array("Q")
        taken.append(nanoseconds)

    @property
    def count(self) -> int:
        """The number of decisions."""
        return sum(map(len, self.taken.values()))

    @property
    def seconds(self) -> float:
        """The total time of all decisions, in seconds."""
        return sum(map(sum, self.taken.values())) / 1e9

    def microseconds(self, event: type | None = None) -> Summary:
        """Return the summary for one kind of event, or for all."""
        chosen = self.taken.values() if event is None else [self.taken[event]]
        return Summary.of([one / 1e3 for one in chain.from_iterable(chosen)])


class Integral:
    """An amount that changes, integrated over time."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._amount = 0.0
        self._since = 0.0

    def change(self, now: float, by: float) -> None:
        """Change the amount by `by` from the time `now` on."""
        self._sum += self._amount * (now - self._since)
        self._amount += by
        self._since = now

    def until(self, now: float) -> float:
        """Return the integral up to the time `now`, in units times seconds."""
        return self._sum + self._amount * (now - self._since)


@dataclass(slots=True)
class Remaining:
    """The number of pieces of work, of all classes, that are neither done nor failed."""

    count: int = 0


class Tally:
    """The outcome of one class of work. Every piece ends as done or failed exactly once, or is left.

    A piece that never ends counts as done when it has started.
    """

    def __init__(self, work: Work, durations: array[float], arrivals: array[float], remaining: Remaining) -> None:
        self.work = work
        self.durations = durations
        self.arrivals = arrivals
        self.waits = array("d")
        """Seconds from arrival to the first start, of each piece that was started."""
        self.done = self.failed = 0
        self.lost_runs = 0
        """Runs that ended with their node, or were preempted, and took `lost_seconds`."""
        self.lost_seconds = 0.0
        self.running, self.blocked, self.held = Integral(), Integral(), Integral()
        """Tasks (of gangs: bundles) that run, that wait inside `get`, and leases (of gangs: groups) that are held."""
        self.grants = self.local_grants = 0
        """The numbers of leases, and of those on a node that has their arguments."""
        self.endless = FOREVER in durations[:1]
        self._ended = bytearray(work.count)
        self._started = bytearray(work.count)
        self._losses: dict[tuple[int, int], int] = {}
        self._remaining = remaining
        remaining.count += work.count

    @property
    def left(self) -> int:
        """The number of pieces that are neither done nor failed."""
        return self._ended.count(0)

    def start(self, piece: int, now: float) -> None:
        """Note that a piece begins, perhaps again."""
        if not self._started[piece]:
            self._started[piece] = 1
            self.waits.append(now - self.arrivals[piece])
        if self.endless:
            self.done += self._end(piece)

    def finish(self, piece: int) -> None:
        """Note that a piece is done."""
        self.done += self._end(piece)

    def lose(self, piece: int, seconds: float, preempted: bool, part: int = 0) -> bool:
        """Note that a run (of a gang: of one part) was lost after `seconds`; return whether it is repeated."""
        self.lost_runs += 1
        self.lost_seconds += seconds
        if preempted:
            return True
        losses = self._losses[piece, part] = self._losses.get((piece, part), 0) + 1
        if losses <= self.work.retries:
            return True
        self.failed += self._end(piece)
        return False

    def _end(self, piece: int) -> int:
        if self._ended[piece]:
            assert self.endless, f"piece {piece} of {self.work.name} ended twice"
            return 0
        self._ended[piece] = 1
        self._remaining.count -= 1
        return 1
