"""What the functions of an iterator share: counters, timers and remarks, and whose item it is at present."""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernel_parallel.iterators.errors import IterationError


class _Current(threading.local):
    """The metrics of the iterator whose function runs in this thread."""

    metrics: MetricsContext | None = None


CURRENT = _Current()


class Timer:
    """How long a block of code takes, over the last `window_size` times it was run: `with timer: ...`"""

    def __init__(self, window_size: int = 10) -> None:
        self._samples: deque[float] = deque(maxlen=window_size)
        self._units: deque[float] = deque(maxlen=window_size)
        self._begun: float | None = None
        self.total_seconds = 0.0
        self.count = 0

    def __enter__(self) -> Timer:
        self._begun = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._begun is not None
        self.push(time.perf_counter() - self._begun)
        self._begun = None

    def push(self, seconds: float) -> None:
        """Add a measurement made elsewhere."""
        self._samples.append(seconds)
        self.total_seconds += seconds
        self.count += 1

    def push_units_processed(self, units: float) -> None:
        """Say how many units the last measurement was for."""
        self._units.append(units)

    def has_units_processed(self) -> bool:
        """Return whether anybody ever said how many units were processed."""
        return bool(self._units)

    @property
    def mean(self) -> float:
        """Seconds, on the average of the window."""
        return sum(self._samples) / len(self._samples) if self._samples else 0.0

    @property
    def mean_units_processed(self) -> float:
        """Units, on the average of the window."""
        return sum(self._units) / len(self._units) if self._units else 0.0

    @property
    def mean_throughput(self) -> float:
        """Units per second over the window."""
        seconds = sum(self._samples)
        return sum(self._units) / seconds if seconds else 0.0


class MetricsContext:
    """Metrics of one chain of local iterators, seen by all of its functions through `LocalIterator.get_metrics()`.

    `counters`: name to a number that rises; `timers`: name to Timer; `info`: name to anything; `current_actor`: the
    worker actor that the present item is from, where it is from one.
    """

    def __init__(self) -> None:
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.timers: defaultdict[str, Timer] = defaultdict(Timer)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None

    def save(self) -> dict[str, Any]:
        """Return counters and info as a dictionary that `restore` takes. Timers begin anew."""
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": None}

    def restore(self, values: dict[str, Any]) -> None:
        """Go back to what `save` returned."""
        self.counters.clear()
        self.counters.update(values["counters"])
        self.timers.clear()
        self.info = dict(values["info"])


class SharedMetrics:
    """Points to the metrics of a chain, so that a union can let all of its chains have the same ones."""

    def __init__(self, metrics: MetricsContext | None = None, parents: Sequence[SharedMetrics] = ()) -> None:
        self.parents = list(parents)
        self.set(metrics or MetricsContext())

    def set(self, metrics: MetricsContext) -> None:
        """Let this chain and all that it is made of use these metrics."""
        self.metrics = metrics
        for parent in self.parents:
            parent.set(metrics)

    def get(self) -> MetricsContext:
        """Return the metrics."""
        return self.metrics

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make these the metrics that `current_metrics` returns inside the block."""
        before, CURRENT.metrics = CURRENT.metrics, self.metrics
        try:
            yield
        finally:
            CURRENT.metrics = before


def current_metrics() -> MetricsContext:
    """Return the metrics of the iterator whose function runs. Raises IterationError outside of one."""
    metrics = CURRENT.metrics
    if metrics is None:
        raise IterationError(
            "get_metrics() works only inside a function of an iterator, such as one given to for_each(); "
            "outside, keep what you need in a variable of your own"
        )
    return metrics
