"""The arrival times of a trace's requests: rates that are steady, rise, fall or swing, and bursts."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from kernel_serve.errors import DeploymentError
from kernel_serve.settings import checked
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A part of a trace. Parts may overlap: their requests add up.

    Either `requests` arrive at second `at`, or `rate` of them a second from `start` to `until` (None: the end): one
    number, or two for a rate that changes evenly from the first to the second. With `period`, the rate swings between
    the two like a wave, beginning with the first.
    """

    start: float = 0.0
    until: float | None = None
    rate: Any = None
    period: float | None = None
    at: float | None = None
    requests: int = 0

    def __post_init__(self) -> None:
        if (self.at is None) == (self.rate is None):
            raise DeploymentError("a part of a trace has either `rate`, or `at` and `requests`")
        rates = self._rates()
        if any(isinstance(rate, bool) or not isinstance(rate, (int, float)) or rate < 0 for rate in rates):
            raise DeploymentError(f"`rate` is requests a second, or two of them in a list, not {self.rate!r}")

    def _rates(self) -> tuple[Any, Any]:
        if not isinstance(self.rate, (list, tuple)):
            return (self.rate or 0.0, self.rate or 0.0)
        if len(self.rate) != 2:
            raise DeploymentError(f"`rate` is requests a second, or two of them in a list, not {self.rate!r}")
        return (self.rate[0], self.rate[1])

    def rate_at(self, second: float, duration: float) -> float:
        """Return the requests a second at a moment of a trace that is `duration` seconds long."""
        until = duration if self.until is None else self.until
        if self.at is not None or not self.start <= second < until:
            return 0.0
        first, last = self._rates()
        if self.period:
            share = (1 - math.cos(2 * math.pi * (second - self.start) / self.period)) / 2
        else:
            share = (second - self.start) / (until - self.start)
        return float(first + (last - first) * share)


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests, what one takes, and what a replica can do. Times are in seconds.

    `service_time_s` is the mean; `service` is its distribution: "constant" or "exponential". `arrivals` come at random
    (`spacing="random"`) or evenly. `times` are recorded arrivals, beside those described.
    """

    name: str = "trace"
    duration_s: float = 600.0
    arrivals: tuple[Arrivals, ...] = ()
    times: tuple[float, ...] = ()
    spacing: str = "random"
    service_time_s: float = 0.2
    service: str = "constant"
    start_time_s: float = 1.0
    """The time until a new replica takes requests."""
    max_ongoing_requests: int = 5
    seed: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of a file, for its readers."""

    def __post_init__(self) -> None:
        if self.spacing not in ("random", "even"):
            raise DeploymentError(f'`spacing` is "random" or "even", not {self.spacing!r}')
        if self.service not in ("constant", "exponential"):
            raise DeploymentError(f'`service` is "constant" or "exponential", not {self.service!r}')
        if self.duration_s <= 0 or self.service_time_s <= 0 or self.start_time_s < 0 or self.max_ongoing_requests < 1:
            raise DeploymentError(
                "`duration_s` and `service_time_s` are above 0, `start_time_s` from 0 on, `max_ongoing_requests` from 1"
            )


def trace_of(data: Mapping[str, Any]) -> Trace:
    """Return the trace that a file describes. Raises DeploymentError, which names the mistake."""
    given = dict(data)
    parts = given.get("arrivals", ())
    if not isinstance(parts, (list, tuple)):
        raise DeploymentError(f"`arrivals` of a trace is a list of parts, not {parts!r}")
    given["arrivals"] = tuple(
        checked(Arrivals, part, f"arrivals[{number}] of the trace") for number, part in enumerate(parts)
    )
    given["times"] = tuple(float(time) for time in given.get("times", ()))
    return checked(Trace, given, "the trace")


def arrival_times(trace: Trace) -> Iterator[float]:
    """Yield the arrival times of a trace's requests, in order. The same seed gives the same times."""
    draw = random.Random(trace.seed)
    single = sorted(
        [*trace.times, *(part.at for part in trace.arrivals if part.at is not None for _ in range(part.requests))]
    )
    due = iter(single)
    following = next(due, None)
    owed = 0.0
    for second in range(math.ceil(trace.duration_s)):
        rate = sum(part.rate_at(second, trace.duration_s) for part in trace.arrivals)
        if trace.spacing == "even":
            owed += rate
            count, owed = int(owed + 1e-9), owed - int(owed + 1e-9)
            within = [second + (number + 0.5) / count for number in range(count)]
        else:
            within = [second + draw.random() for _ in range(poisson(draw, rate))]
        while following is not None and following < second + 1:
            within.append(following)
            following = next(due, None)
        yield from (time for time in sorted(within) if time < trace.duration_s)


def poisson(draw: random.Random, mean: float) -> int:
    """Return a random number with a Poisson distribution of this mean."""
    if mean <= 0:
        return 0
    if mean > 50:
        return max(0, round(draw.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), draw.random(), 0
    while product > limit:
        product *= draw.random()
        count += 1
    return count
