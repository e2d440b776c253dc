"""Stop criteria, which end a trial or the whole experiment."""

from __future__ import annotations

import inspect
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kernel_runs.arguments import ArgumentError, check_callable, check_mode, check_number, check_whole
from kernel_runs.reports import AUTO_KEYS, Report, flatten, look_up
from kernel_tune.errors import MetricError


class Stopper:
    """Decides after each result whether its trial, and whether the experiment ends. Subclasses define both methods.

    It is called in one thread, for the results in their order. A resumed experiment repeats the calls. When `stop_all`
    returns True, running trials end with their next result, and no others start.
    """

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Return whether the trial ends with this result."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(self, trial_id, result)")

    def stop_all(self) -> bool:
        """Return whether the experiment ends."""
        raise NotImplementedError(f"{type(self).__name__} must define stop_all(self)")


class NoopStopper(Stopper):
    """Stops nothing."""

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Return False."""
        return False

    def stop_all(self) -> bool:
        """Return False."""
        return False


class FunctionStopper(NoopStopper):
    """Stops a trial when `function(trial_id, result)` returns something true."""

    def __init__(self, function: Callable[[str, Report], Any]) -> None:
        check_callable(self, "function", function)
        self._function = function

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Return the result of the function as a bool."""
        return bool(self._function(trial_id, result))


class DictionaryStopper(NoopStopper):
    """Stops a trial whose result has a value that has reached its threshold: `{"training_iteration": 10}`.

    One reached threshold suffices. A trial stops at a threshold and above it. Keys are those of a result, added ones
    included, or paths such as `evaluation/reward`; dicts may also be nested. A threshold True waits for a value that is
    true. Raises `MetricError` if no threshold is reached and the result lacks a key.
    """

    def __init__(self, criteria: Mapping[str, Any]) -> None:
        self._criteria = flatten(dict(criteria))
        for key, threshold in self._criteria.items():
            if not (isinstance(threshold, bool) or hasattr(threshold, "dtype")):
                check_number("stop", f"the threshold of {key!r}", threshold)

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Return whether any threshold is reached. NaN reaches none."""
        missing = None
        for key, threshold in self._criteria.items():
            value = look_up(result, key)
            if value is None:
                missing = missing or key
            elif value >= threshold:
                return True
        if missing is not None:
            raise _missing(trial_id, result, missing, "the stop criterion")
        return False


class MaximumIterationStopper(NoopStopper):
    """Stops a trial after `max_iter` results."""

    def __init__(self, max_iter: int) -> None:
        check_whole(self, "max_iter", max_iter, least=1)
        self._max_iter = max_iter
        self._counts: dict[str, int] = {}

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Count the result, and return whether it is the last one."""
        count = self._counts[trial_id] = self._counts.get(trial_id, 0) + 1
        return count >= self._max_iter


class TimeoutStopper(NoopStopper):
    """Stops everything `timeout` seconds (or a timedelta) after its first call.

    `clock` returns seconds; only differences count. The time of earlier sessions is in the pickled state, and counts;
    the time between two sessions does not. Raises `ArgumentError` for a negative timeout.
    """

    def __init__(self, timeout: float | timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        check_number(self, "timeout", seconds, least=0)
        check_callable(self, "clock", clock)
        self._timeout = float(seconds)
        self._clock = clock
        self._used = 0.0
        self._asked: float | None = None

    @property
    def used(self) -> float:
        """The seconds up to the last call, earlier sessions included."""
        return self._used

    def stop_all(self) -> bool:
        """Return whether the time is over."""
        now = self._clock()
        if self._asked is not None:
            self._used += max(now - self._asked, 0.0)
        self._asked = now
        return self._used >= self._timeout

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asked": None}


class TrialPlateauStopper(NoopStopper):
    """Stops a trial whose metric no longer changes.

    It stops when the standard deviation of the last `num_results` values is below `std`, after at least `grace_period`
    results. With `metric_threshold` the value must also be at least as good as that: as large with `mode` "max", as
    small with "min". Raises `ArgumentError` for invalid arguments.
    """

    def __init__(
        self, metric: str, std: float = 0.01, num_results: int = 4, grace_period: int = 4,
        metric_threshold: float | None = None, mode: str | None = None,
    ) -> None:  # fmt: skip
        check_number(self, "std", std, above=0)
        check_whole(self, "num_results", num_results, least=2)
        check_whole(self, "grace_period", grace_period, least=0)
        check_mode(self, mode, optional=metric_threshold is None)
        if metric_threshold is not None:
            check_number(self, "metric_threshold", metric_threshold)
        self._metric = metric
        self._std = std
        self._num_results = num_results
        self._grace_period = grace_period
        self._threshold = metric_threshold
        self._mode = mode
        self._counts: dict[str, int] = {}
        self._last: dict[str, deque[float]] = {}

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Return whether the trial has reached a plateau. Raises `MetricError` if the result lacks the metric."""
        value = _value(trial_id, result, self._metric, type(self).__name__)
        last = self._last.setdefault(trial_id, deque(maxlen=self._num_results))
        last.append(value)
        count = self._counts[trial_id] = self._counts.get(trial_id, 0) + 1
        if count < self._grace_period or len(last) < self._num_results:
            return False
        if self._threshold is not None:
            short = self._threshold - value if self._mode == "max" else value - self._threshold
            if short > 0:
                return False
        return deviation(last) < self._std


class ExperimentPlateauStopper(Stopper):
    """Stops everything when the best values of all trials no longer improve.

    It stops when the standard deviation of the `top` best values so far is at most `std`, and has been so for
    `patience` further results. NaN is never among the best. Raises `ArgumentError` for invalid arguments.
    """

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0) -> None:
        check_number(self, "std", std, above=0)
        check_whole(self, "top", top, least=2)
        check_mode(self, mode, optional=False)
        check_whole(self, "patience", patience, least=0)
        self._metric = metric
        self._std = std
        self._top = top
        self._mode = mode
        self._patience = patience
        self._best: list[float] = []
        self._waited = 0

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Take a value, and return whether the experiment, and so the trial, ends."""
        value = _value(trial_id, result, self._metric, type(self).__name__)
        if not math.isnan(value):
            self._best = sorted([*self._best, value], reverse=self._mode == "max")[: self._top]
        self._waited = self._waited + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Return whether the best values are nearly equal now."""
        return len(self._best) == self._top and deviation(self._best) <= self._std

    def stop_all(self) -> bool:
        """Return whether they have been nearly equal for long enough."""
        return self._waited > self._patience


class CombinedStopper(Stopper):
    """Stops what any of its stoppers stops. All of them get every result."""

    def __init__(self, *stoppers: Stopper) -> None:
        for stopper in stoppers:
            if not isinstance(stopper, Stopper):
                raise ArgumentError(f"CombinedStopper: {stopper!r} is not a Stopper; make_stopper makes one of it")
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: Report) -> bool:
        """Call all stoppers."""
        return any([stopper(trial_id, result) for stopper in self._stoppers])

    def stop_all(self) -> bool:
        """Call all stoppers."""
        return any([stopper.stop_all() for stopper in self._stoppers])


def name_of(stopper: Stopper) -> str:
    """Return the name of a stopper for messages: that of its function, or of its class."""
    function = getattr(stopper, "_function", None)
    return getattr(function, "__qualname__", type(stopper).__name__)


def make_stopper(stop: Any) -> Stopper:
    """Return the stopper for a `stop`: None (nothing stops), a dict of thresholds, a function `(trial_id, result) ->
    bool`, a `Stopper`, or a list of these, any of which suffices.

    Raises `ArgumentError` for anything else.
    """
    if stop is None:
        return NoopStopper()
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        return DictionaryStopper(stop) if stop else NoopStopper()
    if isinstance(stop, (list, tuple)):
        return CombinedStopper(*[make_stopper(each) for each in stop])
    if inspect.isclass(stop) and issubclass(stop, Stopper):
        raise ArgumentError(f"stop is the class {stop.__name__}: pass an object of it, {stop.__name__}(...)")
    if callable(stop) and hasattr(stop, "stop_all"):
        raise ArgumentError(f"stop is {stop!r}, which has stop_all but is not a tune.Stopper: derive its class from it")
    if callable(stop):
        _check_two_arguments(stop)
        return FunctionStopper(stop)
    raise ArgumentError(
        f"stop is {stop!r}, but must be a dict such as {{'training_iteration': 10}}, a function (trial_id, result) -> "
        f"bool, a tune.Stopper, or a list of these"
    )


def deviation(values: Any) -> float:
    """Return the standard deviation of a population; infinity if a value is not finite."""
    if not all(math.isfinite(value) for value in values):
        return math.inf
    return float(statistics.pstdev(values))


def _check_two_arguments(function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind("trial", {})
    except TypeError as error:
        raise ArgumentError(
            f"stop is the function {getattr(function, '__name__', function)}{signature}, but is called with two "
            f"arguments, (trial_id, result)"
        ) from error


def _value(trial_id: str, result: Report, key: str, who: str) -> float:
    value = look_up(result, key)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _missing(trial_id, result, key, who) from None


def _missing(trial_id: str, result: Report, key: str, who: str) -> MetricError:
    flat = flatten({name: value for name, value in result.items() if name not in AUTO_KEYS})
    shown = ", ".join(sorted(flat)[:20]) or "nothing of its own"
    value = look_up(result, key)
    what = f"reported no {key!r}" if value is None else f"reported {value!r} as {key!r}, which is not a number"
    return MetricError(
        f"trial {trial_id} {what}, which {who} needs. It reported: {shown}. Report {key!r} with every result, or name "
        f"another key."
    )
