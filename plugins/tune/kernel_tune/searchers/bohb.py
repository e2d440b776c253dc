"""BOHB: Bayesian optimisation with kernel density estimators, for results of several budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel_runs.reports import Report
from kernel_tune.search_space.flat import FlatSpace, Point
from kernel_tune.searchers.history import History
from kernel_tune.searchers.parzen import ParzenEstimator, kernel_widths
from kernel_tune.searchers.space_searcher import SpaceSearcher

Array = NDArray[np.float64]
MOST_KERNELS = 250
CONFIG_NAMES = ("min_points_in_model", "top_n_percent", "num_samples", "random_fraction", "bandwidth_factor",
                "min_bandwidth")  # fmt: skip


class BOHBSearch(SpaceSearcher):
    """Models the results of each budget separately, and proposes by the largest budget that has enough of them.

    Source: Falkner, Klein, Hutter, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018),
    section 3. The budget of a result is the one that `HyperBandForBOHB` writes into `hyperband_info`. With other
    schedulers the first, third, ninth ... and the last result of a trial count.

    The best `top_n_percent` of a budget, and the others, are modelled by a Parzen estimator each. Of `num_samples`
    points drawn around the best, with kernels wider by `bandwidth_factor`, the one with the highest ratio of densities
    is proposed; a share `random_fraction` of proposals is drawn from the space. There is a model as soon as there are
    `min_points_in_model` results (by default the number of parameters + 1) and two more. `bohb_config` may have these
    settings, too. `max_concurrent` is the largest number of trials that run and are not paused, 0 for any number. Other
    arguments are those of `SpaceSearcher`. Raises ValueError for an unknown setting.
    """

    def __init__(self, space: dict[str, Any] | None = None, bohb_config: dict[str, Any] | None = None,
                 metric: str | None = None, mode: str | None = None, max_concurrent: int = 0,
                 min_points_in_model: int | None = None, top_n_percent: float = 15, num_samples: int = 64,
                 random_fraction: float = 1 / 3, bandwidth_factor: float = 1, min_bandwidth: float = 1e-3,
                 **options: Any) -> None:  # fmt: skip
        super().__init__(space, metric, mode, **options)
        given = {
            "min_points_in_model": min_points_in_model, "top_n_percent": top_n_percent, "num_samples": num_samples,
            "random_fraction": random_fraction, "bandwidth_factor": bandwidth_factor, "min_bandwidth": min_bandwidth,
            **(bohb_config or {}),
        }  # fmt: skip
        if unknown := sorted(set(given) - set(CONFIG_NAMES)):
            raise ValueError(f"bohb_config has no {unknown[0]!r}: it has {', '.join(CONFIG_NAMES)}")
        self._settings = given
        self._most = max_concurrent
        self._paused: dict[str, None] = {}
        self._budgets: dict[float, _Results] = {}
        self._reports: dict[str, int] = {}
        self._told: dict[str, None] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._most and len(self._live) - len(self._paused) >= self._most:
            return None
        return super().suggest(trial_id)

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        if trial_id not in self._live:
            return
        self._paused.pop(trial_id, None)
        reports = self._reports[trial_id] = self._reports.get(trial_id, 0) + 1
        budget = (result.get("hyperband_info") or {}).get("budget")
        if budget is not None:
            self._told[trial_id] = None
        elif trial_id not in self._told and _is_power_of_three(reports):
            budget = reports
        if budget is not None:
            self._record(trial_id, self._live[trial_id], float(budget), self._losses(result, error=False))

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        point = self._live.get(trial_id)
        if point is not None and (error or trial_id not in self._told):
            reports = max(self._reports.get(trial_id, 0), 1)
            self._record(trial_id, point, float(reports), self._losses(result, error))
        self._paused.pop(trial_id, None)
        self._reports.pop(trial_id, None)
        self._told.pop(trial_id, None)
        super().on_trial_complete(trial_id, result=result, error=error)

    def on_pause(self, trial_id: str) -> None:
        """A trial is paused, and no longer counts as running."""
        if trial_id in self._live:
            self._paused[trial_id] = None

    def on_unpause(self, trial_id: str) -> None:
        """A paused trial runs again."""
        self._paused.pop(trial_id, None)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._most = max_concurrent
        return True

    def _learned(self, history: History, first: int) -> None:
        for row in range(first, len(history)):
            self._record(f"evaluated {row}", history.points[row], 1.0, history.losses[row])

    def _record(self, trial_id: str, point: Point, budget: float, losses: Array | None) -> None:
        if losses is not None:
            self._budgets.setdefault(budget, _Results(len(point))).put(trial_id, point, losses)

    def _propose(self, trial_id: str) -> Point:
        flat = self._begun()
        least = self._settings["min_points_in_model"] or len(flat) + 1
        enough = [budget for budget, results in self._budgets.items() if results.usable() >= least + 2]
        if not len(flat) or not enough or self._generator.random() < self._settings["random_fraction"]:
            return flat.random(self._generator)
        good, bad = self._split(self._budgets[max(enough)].history, least)
        better, worse = self._estimator(flat, good), self._estimator(flat, bad)
        count = int(self._settings["num_samples"])
        candidates = better.sample(self._generator, count, self._settings["bandwidth_factor"])
        return candidates[int(np.argmax(better.log_density(candidates) - worse.log_density(candidates)))]

    def _split(self, history: History, least: int) -> tuple[Array, Array]:
        order = np.argsort(history.losses[:, 0], kind="stable")
        share = self._settings["top_n_percent"] / 100
        good = max(least, int(share * len(order)))
        bad = max(least, len(order) - int(share * len(order)))
        return history.points[order[:good][:MOST_KERNELS]], history.points[np.sort(order[-bad:])[-MOST_KERNELS:]]

    def _estimator(self, flat: FlatSpace, points: Array) -> ParzenEstimator:
        count = len(points)
        # Scott's rule alone, as in the paper, converges to the first good place.
        widths = np.maximum(kernel_widths(points, len(flat)), self._settings["min_bandwidth"])
        cells = np.array([parameter.cells for parameter in flat.parameters])
        return ParzenEstimator(flat, points, np.ones(count + 1), widths, cells / (cells + count + 1))


class _Results:
    """Holds the results of one budget: the last one of each trial."""

    def __init__(self, parameters: int) -> None:
        self.history = History(parameters)
        self._rows: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def usable(self) -> int:
        """Return the number of results with a loss."""
        return int(np.isfinite(self.history.losses[:, 0]).sum())

    def put(self, trial_id: str, point: Array, losses: Array) -> None:
        if trial_id in self._rows:
            self.history.losses[self._rows[trial_id]] = losses
        else:
            self._rows[trial_id] = len(self.history)
            self.history.add(point, losses)


def _is_power_of_three(number: int) -> bool:
    while number % 3 == 0:
        number //= 3
    return number == 1
