"""Evaluations of an algorithm: when they come, in which runners, and what is reported of them."""

from __future__ import annotations

from collections.abc import Callable

from kernel_rllib.algorithms.parts import group_settings_of
from kernel_rllib.algorithms.results import EpisodeWindow, ResultTree, episode_results
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.evaluation.evaluator import Evaluator
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.runners.group import MakeSampler, RunnerGroup


class Evaluations:
    """Evaluates by the settings for evaluation. Its runners are made when they are first needed."""

    def __init__(self, config: AlgorithmConfig, make_blueprint: Callable[..., MakeSampler], seed: int) -> None:
        """Evaluate with the settings that `config` has for it.

        Args:
            config: The settings of training.
            make_blueprint: Returns what makes the samplers of runners, given settings, a seed, and `evaluates=True`.
            seed: The seed of the run; evaluations play other episodes than training does.
        """
        self._config, self._make_blueprint = config, make_blueprint
        self._seed = seed + 1
        self._evaluator: Evaluator | None = None

    def is_due(self, iteration: int) -> bool:
        """Return whether one comes with the iteration of this number, from 1."""
        interval = self._config.evaluation_interval
        return bool(interval) and iteration % int(interval or 1) == 0

    def evaluate(self, weights: Array, version: int, statistics: Statistics) -> ResultTree:
        """Return what episodes bring, under the names of all generations.

        Args:
            weights: The parameters to act with [size].
            version: Which these are.
            statistics: What the connectors of training have learned.
        """
        if self._evaluator is None:
            self._evaluator = self._make_evaluator()
        duration = self._config.evaluation_duration
        unit = self._config.evaluation_duration_unit
        with blas_threads(1):
            number = duration if isinstance(duration, int) else 1
            episodes = self._evaluator.play(weights, version, number, unit, statistics)
        window = EpisodeWindow(len(episodes))
        window.add(episodes)
        return episode_results(window)

    def close(self) -> None:
        """End the runners."""
        if self._evaluator is not None:
            self._evaluator.close()

    def _make_evaluator(self) -> Evaluator:
        config = self._config.get_evaluation_config_object() or self._config
        blueprint = self._make_blueprint(config, self._seed, evaluates=True)
        settings = group_settings_of(config)
        return Evaluator(RunnerGroup(blueprint, settings), sum(map(len, settings.lanes)))
