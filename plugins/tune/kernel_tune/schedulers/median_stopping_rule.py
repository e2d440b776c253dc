"""The median stopping rule: trials that are worse than the median of the means of others are stopped."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

from kernel_runs.arguments import check_number, check_whole
from kernel_runs.reports import TIME_TOTAL_S, Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.common import WORST, ComparingScheduler, first_that_fits
from kernel_tune.trial import Status, Trial


class MedianStoppingRule(ComparingScheduler):
    """Stops a trial whose best score so far is below the median of the mean scores of others up to the same time.

    Source: Golovin et al., "Google Vizier: A Service for Black-Box Optimization" (KDD 2017), section 3.2.2. The others
    are all trials that have come at least as far, ended or not.

    `grace_period` is the time from which trials are judged and means are taken. `min_samples_required` is the number of
    others that a median needs. If there are fewer and other trials wait, a trial is paused in favour of them each time
    it has run for `min_time_slice`; with 0 it never is, so that trainables need not be able to save. With
    `hard_stop=False` bad trials are paused instead of stopped, and run to their end when all others have ended. All
    periods are in units of `time_attr`. Raises `ArgumentError` for invalid arguments.

    The cost of a result does not depend on the number of trials as long as they report at the same times (as with
    `training_iteration`). If times differ (seconds), it is a search in each trial that has come as far.
    """

    def __init__(
        self, time_attr: str = TIME_TOTAL_S, metric: str | None = None, mode: str | None = None,
        grace_period: float = 60.0, min_samples_required: int = 3, min_time_slice: float = 0, hard_stop: bool = True,
        seed: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        super().__init__(time_attr, metric, mode, seed, **unknown)
        check_number(self, "grace_period", grace_period, least=0)
        check_whole(self, "min_samples_required", min_samples_required, least=1)
        check_number(self, "min_time_slice", min_time_slice, least=0)
        self._grace_period = grace_period
        self._min_samples_required = min_samples_required
        self._min_time_slice = min_time_slice
        self._hard_stop = hard_stop
        self.needs_checkpoints = not hard_stop or min_time_slice > 0
        self._curves: dict[str, _Curve] = {}
        self._means = _Means()
        self._out: dict[str, None] = {}
        """The trials that were found bad, in that order."""

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Begin the curve of a trial."""
        self._curves[trial.trial_id] = _Curve()

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Compare the trial with the median of the others."""
        time, score = self.time_of(trial, result), self.score_of(trial, result)
        if trial.trial_id in self._out:
            return self.CONTINUE
        curve = self._curves[trial.trial_id]
        self._note(curve, time, score)
        if time < self._grace_period:
            return self.CONTINUE
        others = self._means.at(time, curve, self._curves.values())
        if len(others) < self._min_samples_required:
            return self._yield_to_others(runner, curve, time)
        if curve.best >= median(others) and not (curve.best == WORST and others[-1] > WORST):
            return self.CONTINUE
        self._out[trial.trial_id] = None
        return self.STOP if self._hard_stop else self.PAUSE

    def _note(self, curve: _Curve, time: float, score: float) -> None:
        self._means.forget(curve, curve.cut(time))
        curve.best = max(curve.best, score)
        if time >= self._grace_period:
            self._means.add(curve, time, curve.add(time, score))

    def _yield_to_others(self, runner: Controller, curve: _Curve, time: float) -> str:
        if not self._min_time_slice or time - curve.last_pause < self._min_time_slice:
            return self.CONTINUE
        waiting = (Status.PENDING, Status.PAUSED)
        others = (trial for trial in runner.get_live_trials() if trial.trial_id not in self._out)
        if not (runner.may_make_trials() or any(trial.status in waiting for trial in others)):
            return self.CONTINUE
        curve.last_pause = time
        return self.PAUSE

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """Keep the curve, with its last point, for the medians of other trials."""
        curve = self._curves.get(trial.trial_id)
        if curve is not None and trial.trial_id not in self._out and self.has_both(result):
            self._note(curve, self.time_of(trial, result), self.score_of(trial, result))

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return a pending trial, else the paused one that was paused earliest; bad ones only when all others have
        ended.

        Bad trials run in the order in which they were made.
        """
        live = runner.get_live_trials()
        good = [trial for trial in live if trial.trial_id not in self._out] if self._out else live
        if not good:
            return first_that_fits(runner, live)
        found = first_that_fits(runner, (trial for trial in good if trial.status is Status.PENDING))
        if found is None:
            paused = [trial for trial in good if trial.status is Status.PAUSED]
            found = first_that_fits(runner, sorted(paused, key=self._last_pause))
        return found

    def _last_pause(self, trial: Trial) -> float:
        curve = self._curves.get(trial.trial_id)
        return curve.last_pause if curve is not None else 0.0

    def debug_string(self) -> str:
        """Return the number of trials that were found bad."""
        return f"Using MedianStoppingRule: num_stopped={len(self._out)}."


def median(ascending: list[float]) -> float:
    """Return the median of sorted numbers, the mean of the two in the middle if their number is even."""
    middle = len(ascending) // 2
    if len(ascending) % 2:
        return ascending[middle]
    return (ascending[middle - 1] + ascending[middle]) / 2


class _Curve:
    """Holds the reports of a trial from the grace period on: times, and the sums of the scores up to each."""

    __slots__ = ("best", "last_pause", "sums", "times")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.sums: list[float] = []
        self.best = WORST
        self.last_pause = 0.0

    def cut(self, time: float) -> list[tuple[float, float]]:
        """Remove points at `time` or later, as after a return to a checkpoint. Return their times and means."""
        index = bisect.bisect_left(self.times, time)
        gone = [(self.times[k], self.sums[k] / (k + 1)) for k in range(index, len(self.times))]
        del self.times[index:], self.sums[index:]
        return gone

    def add(self, time: float, score: float) -> float:
        """Append a point, and return the mean up to it."""
        self.times.append(time)
        total = score + (self.sums[-1] if self.sums else 0.0)
        self.sums.append(total if total == total else WORST)
        return self.sums[-1] / len(self.sums)

    def mean(self, time: float) -> float | None:
        """Return the mean of the scores up to a time, or None without scores."""
        count = bisect.bisect_right(self.times, time)
        return self.sums[count - 1] / count if count else None


class _Means:
    """Computes the means of all curves at each time at which some curve has a point, sorted."""

    def __init__(self) -> None:
        self._at: dict[float, list[float]] = {}
        self._last: list[float] = []
        """The last time of each curve that has points, sorted."""

    def add(self, curve: _Curve, time: float, mean: float) -> None:
        """Add the newest point of a curve."""
        bisect.insort(self._at.setdefault(time, []), mean)
        if len(curve.times) > 1:
            _remove(self._last, curve.times[-2])
        bisect.insort(self._last, time)

    def forget(self, curve: _Curve, points: list[tuple[float, float]]) -> None:
        """Remove points that were cut off the end of a curve."""
        for time, mean in points:
            _remove(self._at[time], mean)
        if points:
            _remove(self._last, points[-1][0])
            if curve.times:
                bisect.insort(self._last, curve.times[-1])

    def at(self, time: float, own: _Curve, curves: Any) -> list[float]:
        """Return the sorted means up to `time` of all curves except `own` that reach as far."""
        here = self._at.get(time, [])
        if len(here) == len(self._last) - bisect.bisect_left(self._last, time):
            others = here.copy()
            _remove(others, own.sums[-1] / len(own.sums))
            return others
        return sorted(self._slowly(time, own, curves))

    def _slowly(self, time: float, own: _Curve, curves: Any) -> Iterator[float]:
        for curve in curves:
            if curve is not own and curve.times and curve.times[-1] >= time:
                mean = curve.mean(time)
                if mean is not None:
                    yield mean


def _remove(ascending: list[float], value: float) -> None:
    del ascending[bisect.bisect_left(ascending, value)]
