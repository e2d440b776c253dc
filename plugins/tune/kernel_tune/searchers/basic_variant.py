"""The default searcher: every combination of the grids, random draws for everything else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_runs.reports import Report
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.paths import Path, overlay
from kernel_tune.search_space.randomness import as_generator
from kernel_tune.search_space.variants import GridAxes, count_variants, draw_constants, variants_of
from kernel_tune.searchers.base import FINISHED, Searcher


class BasicVariantGenerator(Searcher):
    """Goes through all combinations of the grids `num_samples` times, with new draws for everything else each time.

    `points_to_evaluate` come first, each instead of one repetition. Their values are used, and grids that a point
    leaves out are gone through. `constant_grid_search` draws once in a repetition instead of for each combination.
    `shuffle` changes the order at random. `max_concurrent` is the largest number of trials that run at once, 0 for any
    number. `random_state` (or `seed`) makes all draws reproducible: an integer, a numpy Generator or a RandomState; by
    default they follow `numpy.random.seed`. `functions_seed` is a seed for draws of functions of the space from the
    module `random`.

    The number of repetitions is the experiment's, or `num_samples` here; -1 is without an end.
    """

    learns = False
    _standard: random.Random | None = None
    """None also in experiments that an earlier version has written."""

    def __init__(self, points_to_evaluate: Sequence[dict[str, Any]] | None = None, max_concurrent: int = 0,
                 constant_grid_search: bool = False, random_state: Any = None, shuffle: bool = False,
                 space: dict[str, Any] | None = None, num_samples: int | None = None, seed: int | None = None,
                 metric: str | None = None, mode: str | None = None, functions_seed: int | None = None
                 ) -> None:  # fmt: skip
        super().__init__(metric, mode)
        self._generator: np.random.Generator = as_generator(seed if random_state is None else random_state)
        if functions_seed is not None:
            self._standard = random.Random(functions_seed)
        self._points = list(points_to_evaluate or [])
        self._max_concurrent = max_concurrent
        self._constant_grid_search = constant_grid_search
        self._shuffle = shuffle
        self._space = space
        self._own_space = space is not None
        self._num_samples = num_samples
        self._repetition = -1
        self._combination = 0
        self._combinations = 0
        self._constants: dict[Path, Any] = {}
        self._waiting: list[dict[str, Any]] = []
        self._shuffled = False
        self._live: dict[str, None] = {}

    @property
    def total_samples(self) -> int | None:
        """The number of configurations that there will be; None if there is no end, or no space yet.

        Grids within options of a choice are not counted.
        """
        samples = self._samples
        if self._space is None or samples is None:
            return None
        points = self._points[:samples]
        whole = count_variants(self._space)
        return sum(count_variants(overlay(self._space, point)) for point in points) + (samples - len(points)) * whole

    def set_search_properties(
        self, metric: str | None, mode: str | None, space: dict[str, Any], **experiment: Any
    ) -> bool:
        super().set_search_properties(metric, mode, space, **experiment)
        if self._num_samples is None:
            self._num_samples = experiment.get("num_samples")
        if self._own_space:
            return False
        self._space = space
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if self._space is None:
            raise SearchSpaceError("BasicVariantGenerator has no search space: give it `space`, or run it")
        if self._max_concurrent and len(self._live) >= self._max_concurrent:
            return None
        if self._shuffle and not self._shuffled and self._samples is not None:
            self._waiting = self._all_shuffled()
        while not self._waiting:
            if not self._advance():
                return FINISHED
        self._live[trial_id] = None
        return self._waiting.pop(0)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        self._live.pop(trial_id, None)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def get_state(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_space", "_own_space")}

    @property
    def _samples(self) -> int | None:
        samples = 1 if self._num_samples is None else self._num_samples
        return None if samples < 0 or samples == float("inf") else max(int(samples), 0)

    def _all_shuffled(self) -> list[dict[str, Any]]:
        configs: list[dict[str, Any]] = []
        while self._advance():
            configs += self._waiting
        self._shuffled = True
        return [configs[number] for number in self._generator.permutation(len(configs))]

    def _advance(self) -> bool:
        """Make the configurations of the next combination. Return whether there was one."""
        if self._combination >= self._combinations and not self._next_repetition():
            return False
        space = self._preset
        combination = GridAxes(space).combination(self._combination)
        made = variants_of(space, combination, self._generator, self._constants, self._standard)
        self._waiting = [config for _, config in made]
        self._combination += 1
        return True

    def _next_repetition(self) -> bool:
        if self._samples is not None and self._repetition + 1 >= self._samples:
            return False
        self._repetition += 1
        self._combination, self._combinations = 0, len(GridAxes(self._preset))
        self._constants = {}
        if self._constant_grid_search:
            self._constants = draw_constants(self._preset, self._generator, self._standard)
        return True

    @property
    def _preset(self) -> Any:
        """The space of this repetition, with the values of a point to evaluate, as long as there are some."""
        if self._repetition < len(self._points):
            return overlay(self._space, self._points[self._repetition])
        return self._space
