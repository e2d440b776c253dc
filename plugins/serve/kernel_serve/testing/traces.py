"""Play a trace of requests against an autoscaler. The time is simulated: an hour takes a moment."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import field
from itertools import pairwise

from kernel_serve.autoscaling import Autoscaler
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.testing.arrivals import Arrivals, Trace, arrival_times, trace_of
from kernel_spec.dataclass import dataclass

__all__ = ["Arrivals", "Moment", "Trace", "TraceOutcome", "play", "trace_of"]


@dataclass(frozen=True, slots=True)
class Moment:
    """Holds the state at one second of the trace."""

    time: float
    target: int
    ready: int
    queued: int
    ongoing: int


@dataclass(slots=True)
class TraceOutcome:
    """Records the course of a trace: each second, each change of the target, and how long requests waited (seconds)."""

    trace: Trace
    moments: list[Moment] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    wakes: list[float] = field(default_factory=list)
    """For each request that found the deployment at zero, the seconds until its target was above."""
    requests: int = 0
    unserved: int = 0
    replica_seconds: float = 0.0
    """The seconds that all replicas together existed, starting ones included: the cost."""

    def targets(self, since: float = 0.0, until: float = float("inf")) -> list[int]:
        """Return the targets of each second in a span."""
        return [moment.target for moment in self.moments if since <= moment.time < until]

    def turns(self, since: float = 0.0) -> int:
        """Return how often the target, from a moment on, changed its direction."""
        steps = [later - earlier for earlier, later in pairwise(self.targets(since)) if later != earlier]
        return sum((earlier > 0) != (later > 0) for earlier, later in pairwise(steps))

    def wait(self, share: float) -> float:
        """Return the waiting time that this share of the requests did not exceed."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def play(trace: Trace, settings: AutoscalingConfig, autoscaler: Autoscaler | None = None) -> TraceOutcome:
    """Play a trace and return what happened. The same trace and settings give the same outcome."""
    return _Play(trace, autoscaler or Autoscaler(settings)).run()


class _Play:
    """Requests in one queue, and replicas with a fixed number of places each."""

    def __init__(self, trace: Trace, autoscaler: Autoscaler) -> None:
        self.trace = trace
        self.autoscaler = autoscaler
        self.outcome = TraceOutcome(trace)
        self.target = self.ready = autoscaler.initial()
        self.starting: deque[float] = deque()
        self.queue: deque[float] = deque()
        self.ends: list[float] = []
        """The end times of the requests that are worked on: a heap."""
        self.now = 0.0
        self._draw = random.Random(trace.seed + 1)

    def run(self) -> TraceOutcome:
        arrivals = arrival_times(self.trace)
        following = next(arrivals, None)
        interval = self.autoscaler.settings.metrics_interval_s
        ticks = int(self.trace.duration_s / interval)
        for tick in range(1, ticks + 1):
            end = tick * interval
            while following is not None and following <= end:
                self._pass_until(following)
                self._arrive()
                following = next(arrivals, None)
            self._pass_until(end)
            self._decide()
            self.outcome.moments.append(Moment(end, self.target, self.ready, len(self.queue), len(self.ends)))
        self.outcome.unserved = len(self.queue)
        return self.outcome

    def _pass_until(self, end: float) -> None:
        """End requests, and let replicas become ready, until the time `end`."""
        while True:
            ready = self.starting[0] if self.starting else end
            done = self.ends[0] if self.ends else end
            following = min(ready, done, end)
            self.outcome.replica_seconds += (self.ready + len(self.starting)) * (following - self.now)
            self.now = following
            if following >= end:
                break
            if ready <= done:
                self.starting.popleft()
                self.ready += 1
            else:
                heapq.heappop(self.ends)
            self._serve()

    def _arrive(self) -> None:
        self.outcome.requests += 1
        self.queue.append(self.now)
        self._serve()
        if self.target == 0:
            self._decide()
            if self.target:
                self.outcome.wakes.append(self.now - self.queue[0])

    def _serve(self) -> None:
        places = self.ready * self.trace.max_ongoing_requests
        while self.queue and len(self.ends) < places:
            self.outcome.waits.append(self.now - self.queue.popleft())
            heapq.heappush(self.ends, self.now + self._service_time())

    def _service_time(self) -> float:
        mean = self.trace.service_time_s
        return mean if self.trace.service == "constant" else self._draw.expovariate(1 / mean)

    def _decide(self) -> None:
        self.autoscaler.observe(self.now, len(self.queue), len(self.ends))
        target = self.autoscaler.decide(self.now, self.target, self.ready)
        if target == self.target:
            return
        self.target = target
        self.outcome.changes.append((self.now, target))
        while self.ready + len(self.starting) < target:
            self.starting.append(self.now + self.trace.start_time_s)
        while self.ready + len(self.starting) > target:  # starting replicas go first
            if self.starting:
                self.starting.pop()
            else:
                self.ready -= 1
        self._serve()
