"""A searcher that asks bayesian-optimization."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers.adapters.library import LibrarySearcher
from kernel_tune.searchers.base import FINISHED


class BayesOptSearch(LibrarySearcher):
    """Asks a `BayesianOptimization` (pip install bayesian-optimization).

    `space` is one of tune's, seen as the unit cube, or that library's: `{name: (low, high)}`. `utility_kwargs` has
    `kind` ("ucb", "ei" or "poi"), `kappa` and `xi`. The first `random_search_steps` points are random. With
    `skip_duplicate` no point is suggested twice, compared by `repeat_float_precision` digits; after `patience` attempts
    in a row without a new point it is finished. `analysis` may have trials of an earlier experiment to learn from.
    `random_state` is the seed. Raises SearchSpaceError for another kind.
    """

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None, utility_kwargs: Any = None,
                 random_state: int = 42, random_search_steps: int = 10, verbose: int = 0, patience: int = 5,
                 skip_duplicate: bool = True, analysis: Any = None, repeat_float_precision: int = 5,
                 seed: int | None = None, evaluated_rewards: Sequence[float] | None = None,
                 **unknown: Any) -> None:  # fmt: skip
        self._library = needed("bayes_opt", "BayesOptSearch", "bayesian-optimization")
        seed = random_state if seed is None else seed
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed, **unknown)
        self._utility = {"kind": "ucb", "kappa": 2.576, "xi": 0.0, **(utility_kwargs or {})}
        if self._utility["kind"] not in ("ucb", "ei", "poi"):
            raise SearchSpaceError(f"utility_kwargs has kind {self._utility['kind']!r}: it is 'ucb', 'ei' or 'poi'")
        self._random_steps = random_search_steps
        self._verbose = verbose
        self._patience = patience
        self._skip = skip_duplicate
        self._precision = repeat_float_precision
        self._seen: dict[tuple[float, ...], None] = {}
        for trial in analysis.trials if analysis is not None else ():
            if self.metric in trial.last_result:
                self.add_evaluated_point(trial.config, trial.last_result[self.metric])

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        for _ in range(max(self._patience, 1)):
            if (config := super().suggest(trial_id)) is not None:
                return config
        return FINISHED

    def _open(self) -> Any:
        bounds = {name: (0.0, 1.0) for name in self._parameters} if self._flat is not None else dict(self._native)
        options: dict[str, Any] = {"f": None, "pbounds": bounds, "verbose": self._verbose, "random_state": self._seed}
        if hasattr(self._library, "acquisition"):
            options["acquisition_function"] = self._acquisition()
        return self._library.BayesianOptimization(allow_duplicate_points=True, **options)

    def _acquisition(self) -> Any:
        """Return an acquisition function of version 2 of the library, or the utility function of version 1."""
        kind, kappa, xi = (self._utility[name] for name in ("kind", "kappa", "xi"))
        if not hasattr(self._library, "acquisition"):
            return self._library.UtilityFunction(kind=kind, kappa=kappa, xi=xi)
        known = self._library.acquisition
        if kind == "ucb":
            return known.UpperConfidenceBound(kappa=kappa)
        return (known.ExpectedImprovement if kind == "ei" else known.ProbabilityOfImprovement)(xi=xi)

    def _ask(self) -> tuple[Any, Any] | None:
        optimizer = self._optimizer
        if len(optimizer.space) == 0 or len(self._seen) < self._random_steps:
            low, high = optimizer.space.bounds.T
            drawn = self._generator.random(len(low)) * (high - low) + low
            asked = dict(zip(optimizer.space.keys, (float(x) for x in drawn), strict=True))
        elif hasattr(self._library, "acquisition"):
            asked = optimizer.suggest()
        else:
            asked = optimizer.suggest(self._acquisition())
        asked = {name: float(value) for name, value in asked.items()}
        key = tuple(round(value, self._precision) for _, value in sorted(asked.items()))
        if self._skip and key in self._seen:
            return None
        self._seen[key] = None
        if self._flat is None:
            return asked, asked
        return asked, self._values_at([asked[name] for name in self._parameters])

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        if self._flat is None:
            return chosen, chosen
        return dict(zip(self._parameters, self._units_of(chosen), strict=True)), chosen

    def _tell(self, handle: Any, loss: float) -> None:
        if math.isfinite(loss):
            self._optimizer.register(params=handle, target=-loss)
