"""Asynchronous successive halving: a trial is judged when it reaches a rung, without waiting for others."""

from __future__ import annotations

import bisect
import math
from typing import Any

from kernel_runs.arguments import ArgumentError, check_number, check_whole
from kernel_runs.reports import TRAINING_ITERATION, Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.common import WORST, ComparingScheduler
from kernel_tune.trial import Trial


class AsyncHyperBandScheduler(ComparingScheduler):
    """Stops a trial that reaches a rung and is not among the best 1/`reduction_factor` of those that reached it before.

    Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020, arXiv:1810.05934), in the
    variant of section 3.3's discussion that stops instead of pausing. Rungs are at `grace_period *
    reduction_factor**k`, below `max_t`. The cutoff of a rung is the quantile 1 - 1/`reduction_factor` of the scores
    that were recorded there before, linearly interpolated; the first trial always continues.

    `grace_period` is the time at which a trial is first judged, `max_t` the time at which it ends (unless
    `stop_last_trials` is False), both in units of `time_attr`. With several `brackets`, bracket s begins to judge
    `reduction_factor**s` times later. A new trial gets one at random; those with more rungs are more likely (softmax of
    the number of rungs). This protects slow starters. Raises `ArgumentError` for invalid arguments.
    """

    def __init__(
        self, time_attr: str = TRAINING_ITERATION, metric: str | None = None, mode: str | None = None,
        max_t: float = 100, grace_period: float = 1, reduction_factor: float = 4, brackets: int = 1,
        stop_last_trials: bool = True, seed: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        super().__init__(time_attr, metric, mode, seed, **unknown)
        check_number(self, "max_t", max_t, above=0)
        check_number(self, "grace_period", grace_period, above=0, most=max_t)
        check_number(self, "reduction_factor", reduction_factor, above=1)
        check_whole(self, "brackets", brackets, least=1)
        self._max_t = max_t
        self._stop_last_trials = stop_last_trials
        milestones = rungs(grace_period, max_t, reduction_factor)
        if brackets > len(milestones):
            raise ArgumentError(
                f"{type(self).__name__}: brackets is {brackets}, but with grace_period={grace_period}, "
                f"reduction_factor={reduction_factor} and max_t={max_t} there are rungs for {len(milestones)} at most"
            )
        self._brackets = [_Bracket(milestones[skipped:], reduction_factor) for skipped in range(brackets)]
        self._weights = [math.exp(len(bracket.milestones) - len(milestones)) for bracket in self._brackets]
        self._places: dict[str, _Place] = {}
        self._stopped = 0

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Draw the trial's bracket."""
        bracket = 0 if len(self._brackets) == 1 else self._random.choices(range(len(self._brackets)), self._weights)[0]
        self._places[trial.trial_id] = _Place(bracket)

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Stop a trial that has reached a rung with too low a score, or has reached `max_t`."""
        time, score = self.time_of(trial, result), self.score_of(trial, result)
        place = self._places[trial.trial_id]
        stays = self._brackets[place.bracket].judge(place, time, score)
        if stays and not (time >= self._max_t and self._stop_last_trials):
            return self.CONTINUE
        self._stopped += 1
        return self.STOP

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """Record the last score of a trial, for comparison with later ones."""
        place = self._places.pop(trial.trial_id, None)
        if place is not None and self.has_both(result):
            time, score = self.time_of(trial, result), self.score_of(trial, result)
            self._brackets[place.bracket].judge(place, time, score)

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """Forget the trial, but keep its scores."""
        self._places.pop(trial.trial_id, None)

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """Forget the trial, but keep its scores."""
        self._places.pop(trial.trial_id, None)

    def debug_string(self) -> str:
        """Return the number of stopped trials, and the cutoff of every rung in units of the metric."""
        sign = -1.0 if self.mode == "min" else 1.0
        lines = [f"Using AsyncHyperBand: num_stopped={self._stopped}"]
        return "\n".join(lines + [bracket.describe(sign) for bracket in self._brackets])


ASHAScheduler = AsyncHyperBandScheduler
"""The name in the paper."""


def rungs(grace_period: float, max_t: float, reduction_factor: float) -> list[float]:
    """Return `grace_period * reduction_factor**k` for k = 0, 1, ... up to `max_t`."""
    milestones: list[float] = []
    while (milestone := grace_period * reduction_factor ** len(milestones)) <= max_t:
        milestones.append(milestone)
    return milestones


def cutoff(ascending: list[float], reduction_factor: float) -> float | None:
    """Return the quantile 1 - 1/`reduction_factor` of sorted scores, interpolated linearly; None without scores."""
    if not ascending:
        return None
    place = (1 - 1 / reduction_factor) * (len(ascending) - 1)
    below = min(int(place), len(ascending) - 1)
    low = ascending[below]
    if place == below or low == WORST:
        return low
    return low + (place - below) * (ascending[below + 1] - low)


class _Place:
    """Holds the bracket of a trial, and the highest rung at which it was judged (-1 before the first)."""

    __slots__ = ("bracket", "rung")

    def __init__(self, bracket: int) -> None:
        self.bracket = bracket
        self.rung = -1


class _Bracket:
    """Rungs from low to high, each with the scores that were recorded there, in ascending order."""

    def __init__(self, milestones: list[float], reduction_factor: float) -> None:
        self.milestones = milestones
        self.scores: list[list[float]] = [[] for _ in milestones]
        self._reduction_factor = reduction_factor

    def judge(self, place: _Place, time: float, score: float) -> bool:
        """Record the score if the trial has reached a higher rung. Return whether the trial continues."""
        rung = bisect.bisect_right(self.milestones, time) - 1
        if rung <= place.rung:
            return True
        place.rung = rung
        scores = self.scores[rung]
        limit = cutoff(scores, self._reduction_factor)
        stays = limit is None or score >= limit
        if score == WORST and scores and scores[-1] > WORST:
            stays = False
        bisect.insort(scores, score)
        return stays

    def describe(self, sign: float) -> str:
        """Return a line with the cutoffs, highest rung first."""
        parts = []
        for milestone, scores in zip(reversed(self.milestones), reversed(self.scores), strict=True):
            limit = cutoff(scores, self._reduction_factor)
            parts.append(f"Iter {milestone:.3f}: {None if limit is None else sign * limit}")
        return f"Bracket: {' | '.join(parts)}"
