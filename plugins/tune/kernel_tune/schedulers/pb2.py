"""Population based bandits: population based training that chooses new values by a model of their effect."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kernel_runs.arguments import ArgumentError
from kernel_runs.reports import TIME_TOTAL_S
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.pb2_model import next_point
from kernel_tune.schedulers.pbt import Member, PopulationBasedTraining
from kernel_tune.schedulers.pbt_explore import CustomExplore, customised
from kernel_tune.trial import Trial

_MOST_OBSERVATIONS = 1000


class PB2(PopulationBasedTraining):
    """Exploits as population based training does, and chooses new values by a Gaussian process bandit.

    Source: Parker-Holder, Nguyen, Roberts, "Provably Efficient Online Hyperparameter Optimization with Population-Based
    Bandits" (NeurIPS 2020, arXiv:2002.02518), algorithms 1 and 2. The model learns how much the score rises per unit of
    time after each choice, given the score before and the time. It needs far smaller populations than random changes.

    `hyperparam_bounds` has `[low, high]` for each key, or a dict of these for nested keys. A trial whose configuration
    lacks such a key gets a random value when it is made. Integers of the configuration stay integers. The other
    arguments are those of `PopulationBasedTraining`. Raises `ArgumentError` for invalid arguments.
    """

    def __init__(
        self, time_attr: str = TIME_TOTAL_S, metric: str | None = None, mode: str | None = None,
        perturbation_interval: float = 60.0, hyperparam_bounds: dict[str, Any] | None = None,
        quantile_fraction: float = 0.25, log_config: bool = True, require_attrs: bool = True, synch: bool = False,
        custom_explore_fn: CustomExplore | None = None, burn_in_period: float = 0.0,
        seed: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        if not hyperparam_bounds:
            raise ArgumentError("PB2 would change nothing: give hyperparam_bounds, such as {'lr': [1e-4, 1e-1]}")
        bounds = _bounds(hyperparam_bounds)
        super().__init__(
            time_attr, metric, mode,
            perturbation_interval=perturbation_interval, burn_in_period=burn_in_period, hyperparam_mutations=bounds,
            quantile_fraction=quantile_fraction, custom_explore_fn=custom_explore_fn, log_config=log_config,
            require_attrs=require_attrs, synch=synch, seed=seed, **unknown,
        )  # fmt: skip
        self._leaves = dict(_leaves(bounds))
        self._starts: dict[str, tuple[float, float]] = {}
        """The time and the score of each trial, or of its donor, when it was last compared."""
        self._observed: list[tuple[float, float, tuple[float, ...], float]] = []
        """Time before, score before, point in 0..1, rise of the score per unit of time."""
        self._pending: list[tuple[float, ...]] = []
        """The points that were chosen since `_chosen_at`, the latest time with an observation."""
        self._chosen_at = -math.inf

    def _note(self, trial: Trial, member: Member) -> None:
        start = self._starts.get(trial.trial_id)
        score = -math.inf if member.score is None else member.score
        if not math.isfinite(score):
            self._starts.pop(trial.trial_id, None)
            return
        if start is not None and member.time > start[0]:
            rise = (score - start[1]) / (member.time - start[0])
            self._observed.append((start[0], start[1], self._point(trial.config), rise))
            del self._observed[:-_MOST_OBSERVATIONS]
        self._starts[trial.trial_id] = (member.time, score)

    def _new_config(self, trial: Trial, donor: Trial) -> dict[str, Any]:
        start = self._starts.get(donor.trial_id)
        generator = np.random.default_rng(self._random.getrandbits(64))
        if start is None or len(self._observed) < 2:
            point = generator.random(len(self._leaves))
        else:
            point = self._choose(start, generator)
        if start is not None:
            self._starts[trial.trial_id] = start
        else:
            self._starts.pop(trial.trial_id, None)
        config = self._with(donor.config, point)
        custom = self._custom_explore_fn
        return config if custom is None else customised(config, custom, self._random)

    def _choose(self, start: tuple[float, float], generator: np.random.Generator) -> Any:
        times = np.array([each[0] for each in self._observed]) / self._interval
        scores = np.array([each[1] for each in self._observed])
        points = np.array([each[2] for each in self._observed])
        rises = np.array([each[3] for each in self._observed])
        if start[0] > self._chosen_at:
            self._pending, self._chosen_at = [], start[0]
        low, spread = scores.min(), max(scores.max() - scores.min(), 1e-8)
        x = np.column_stack([(scores - low) / spread, points])
        context = np.array([(start[1] - low) / spread])
        pending = np.array(self._pending).reshape(len(self._pending), len(self._leaves))
        chosen = next_point(x, times, rises, context, start[0] / self._interval, pending, generator)
        self._pending.append(tuple(chosen))
        return chosen

    def _point(self, config: Mapping[str, Any]) -> tuple[float, ...]:
        """Return the bounded values of a configuration, scaled to 0..1."""
        return tuple(leaf.scaled(_get(config, path)) for path, leaf in self._leaves.items())

    def _with(self, config: Mapping[str, Any], point: Any) -> dict[str, Any]:
        """Return a copy of a configuration with the values of a point in 0..1. Integers stay integers."""
        new = copy.deepcopy(dict(config))
        for (path, leaf), place in zip(self._leaves.items(), point, strict=True):
            inner = new
            for key in path[:-1]:
                inner = inner[key]
            value = leaf.low + float(place) * (leaf.high - leaf.low)
            whole = isinstance(inner.get(path[-1]), int)
            inner[path[-1]] = round(value) if whole else value
        return new

    def _leave(self, runner: Controller, trial: Trial) -> None:
        self._starts.pop(trial.trial_id, None)
        super()._leave(runner, trial)


class Bounds:
    """Holds a range of numbers."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def sample(self, random_state: np.random.Generator) -> float:
        """Return a number from the range, all equally likely."""
        return float(random_state.uniform(self.low, self.high))

    def scaled(self, value: float) -> float:
        """Return the position of a number in the range, 0 to 1."""
        return (float(value) - self.low) / (self.high - self.low)


def _bounds(given: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(f"PB2: hyperparam_bounds{path} is {given!r}, but must be a dict")
    made: dict[str, Any] = {}
    for key, value in given.items():
        where = f"{path}[{key!r}]"
        if isinstance(value, Mapping):
            made[key] = _bounds(value, where)
            continue
        pair = isinstance(value, (list, tuple)) and len(value) == 2
        if not pair or not all(isinstance(end, (int, float)) for end in value) or not value[0] < value[1]:
            raise ArgumentError(
                f"PB2: hyperparam_bounds{where} is {value!r}, but must be [low, high], two numbers with low < high"
            )
        made[key] = Bounds(*value)
    return made


def _leaves(bounds: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Bounds]]:
    for key, value in bounds.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _get(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = config
    for key in path:
        value = value[key]
    return value
