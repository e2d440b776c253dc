"""Delays: a wish must hold for some time before it is carried out, and a deployment must not swing."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from kernel_serve.settings import AutoscalingConfig

LONGEST_PATIENCE = 600.0
"""The longest time in seconds that a swinging deployment keeps its replicas, unless its own delay is longer."""

_SMALL_STEP = 0.5
"""The share of the replicas up to which a step may be a mere swing; a larger step has a cause.

A step of up to two replicas may always be a swing.
"""

_A_BIT = 1e-6
"""Seconds by which the difference of two times may be too small."""


class Delays:
    """Turns what is wanted, moment by moment, into what is done.

    Replicas are added when more were wanted for the whole of `upscale_delay_s`: as many as are wanted at its end. They
    are removed after `downscale_delay_s`, down to the largest number that was wanted meanwhile. A deployment that goes
    up a little soon after it went down swings: it waits twice as long the next time, and again, up to
    `LONGEST_PATIENCE` seconds.
    """

    def __init__(self, settings: AutoscalingConfig) -> None:
        self.settings = settings
        self.up_since: float | None = None
        self.known_since: float | None = None
        """The time since which it is known without a gap what is wanted."""
        self.not_fewer_before = -math.inf
        """The time before which it can't be known that fewer replicas are enough."""
        self._swings = 0
        self._last_down: float | None = None
        self._wanted: deque[tuple[float, int]] = deque()
        """What was wanted at which time, without entries before a later and larger number."""

    def next_target(self, now: float, current: int, wanted: int, idle_s: float) -> int:
        """Return the number of replicas from now on, and record it."""
        self._remember(now, wanted)
        if wanted <= current:
            self.up_since = None
        elif self.up_since is None:
            self.up_since = now
        if current == 0:
            self.up_since = self._last_down = None  # Waking up is no swing.
            return wanted
        if self.up_since is not None and now - self.up_since + _A_BIT >= self.settings.upscale_delay_s:
            return self._moved_up(now, current, wanted)
        return self._lowered(now, current, idle_s)

    def reset(self) -> None:
        """Forget what was wanted: there is a gap in what is known."""
        self.up_since = self.known_since = None
        self._wanted.clear()

    def down_delay(self) -> float:
        """Return the number of seconds for which a few replicas less must be enough before they are stopped."""
        delay = self.settings.downscale_delay_s
        if not self._swings:
            return delay
        patience = max(delay, self.settings.look_back_period_s / 2) * 2**self._swings
        return float(max(delay, min(patience, LONGEST_PATIENCE)))

    def _lowered(self, now: float, current: int, idle_s: float) -> int:
        if now < self.not_fewer_before:
            return current
        if current == 1:
            unused = self._wanted[-1][1] == 0 and idle_s > 0 and idle_s + _A_BIT >= self._delay_to_zero()
            return 0 if unused else 1
        least = self._most_wanted(now, self.settings.downscale_delay_s)
        if least is not None and _is_small(current, least) and idle_s < self.settings.look_back_period_s:
            least = self._most_wanted(now, self.down_delay())
        if least is None or least >= current:
            return current
        return max(1, self._moved_down(now, current, least))

    def _delay_to_zero(self) -> float:
        delay = self.settings.downscale_to_zero_delay_s
        return self.settings.downscale_delay_s if delay is None else delay

    def _most_wanted(self, now: float, delay: float) -> int | None:
        """Return the largest number wanted in the last `delay` seconds; None if a part of them is unknown."""
        if self.known_since is None or now - self.known_since + _A_BIT < delay:
            return None
        return next((wanted for at, wanted in self._wanted if at + _A_BIT >= now - delay), self._wanted[-1][1])

    def _moved_up(self, now: float, current: int, wanted: int) -> int:
        if self._last_down is not None:
            soon = now - self._last_down <= max(4 * self.down_delay(), LONGEST_PATIENCE)
            if not soon:
                self._swings //= 2
            elif _is_small(current, wanted):
                self._swings = min(self._swings + 1, 16)
            self._last_down = None
        self.up_since = None
        return _rounded_up(current + self.settings.upscaling_factor * (wanted - current))

    def _moved_down(self, now: float, current: int, least: int) -> int:
        factor = self.settings.downscaling_factor
        if factor < 1:  # The next step waits as this one did.
            self.known_since = now
        if _is_small(current, least):
            self._last_down = now
        return min(current - 1, max(least, _rounded_up(current + factor * (least - current))))

    def _remember(self, now: float, wanted: int) -> None:
        if self._wanted and now < self._wanted[-1][0]:
            self.reset()
        if self.known_since is None:
            self.known_since = now
        while self._wanted and self._wanted[-1][1] <= wanted:
            self._wanted.pop()
        self._wanted.append((now, wanted))
        longest = max(self.settings.downscale_delay_s, LONGEST_PATIENCE)
        while len(self._wanted) > 1 and self._wanted[0][0] < now - longest - 1:
            self._wanted.popleft()

    def saved(self, epoch: float) -> dict[str, Any]:
        """Return how the deployment has swung: what changes with the target alone. Delays under way are not included.

        `epoch` is the time at which this clock was at 0, in seconds of a clock that outlives it.
        """
        if not self._swings and self._last_down is None:
            return {}
        return {"swings": self._swings, "last_down": None if self._last_down is None else self._last_down + epoch}

    def restore(self, saved: Mapping[str, Any], epoch: float) -> None:
        """Go on from what `saved` returned, on a clock that was at 0 at `epoch`."""
        self._swings = saved.get("swings", 0)
        last_down = saved.get("last_down")
        self._last_down = None if last_down is None else last_down - epoch


def _is_small(current: int, other: int) -> bool:
    """Return whether a step is so small that it may be a swing rather than a change of the load."""
    return abs(other - current) <= max(2, _SMALL_STEP * current)


def _rounded_up(number: float) -> int:
    return -int(-(number - 1e-9) // 1)
