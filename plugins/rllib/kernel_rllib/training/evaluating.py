"""Evaluations of an algorithm: when they come, in which runners, and what is reported of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.errors import EvaluationError
from kernel_rllib.evaluation.evaluator import Evaluator, Played
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint, change_policies
from kernel_rllib.training.parts import group_settings_of
from kernel_rllib.training.reports import evaluation_results
from kernel_rllib.training.results import EpisodeWindow, ResultTree, episode_results, merged

_log = logging.getLogger("kernel.rllib")


class Evaluations:
    """Evaluates by the settings for evaluation. Its runners are made when they are first needed."""

    def __init__(
        self,
        config: AlgorithmConfig,
        make_blueprint: Callable[..., Blueprint | MultiAgentBlueprint],
        seed: int,
        cpu_share: float | None = None,
    ) -> None:
        """Evaluate with the settings that `config` has for it.

        Args:
            config: The settings of training.
            make_blueprint: Returns the blueprint of runners' samplers, given settings, a seed, and `evaluates=True`.
            seed: The seed of the run; evaluations play other episodes than training does.
            cpu_share: The largest number of CPUs that a runner may reserve; see `cpu_shares`. None for as many as it
                asks for.
        """
        self._config, self._make_blueprint = config, make_blueprint
        self._seed, self._cpu_share = seed + 1, cpu_share
        self._evaluator: Evaluator | None = None
        self._skipped = 0
        self.last: ResultTree | None = None
        """The results of the last evaluation."""

    def is_due(self, iteration: int) -> bool:
        """Return whether one comes with the iteration of this number, from 1."""
        interval = self._config.evaluation_interval
        return bool(interval) and iteration % int(interval or 1) == 0

    @property
    def is_parallel(self) -> bool:
        """Whether evaluations run in parallel with training."""
        return bool(self._config.evaluation_parallel_to_training)

    @property
    def config(self) -> AlgorithmConfig:
        """The settings that evaluations have."""
        if not hasattr(self, "_own_config"):
            self._own_config = self._config.get_evaluation_config_object() or self._config
        return self._own_config

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, which plays the episodes. It is made at the first use."""
        if self._evaluator is None:
            self._evaluator = self._make_evaluator()
        return self._evaluator

    @property
    def blueprint(self) -> Blueprint | MultiAgentBlueprint:
        """The blueprint by which runners for evaluation make their samplers."""
        if not hasattr(self, "_blueprint"):
            self._blueprint = self._make_blueprint(self.config, self._seed, evaluates=True)
        return self._blueprint

    def evaluate(
        self, weights: Array, statistics: Statistics, goes_on: Callable[[], bool] = lambda: False
    ) -> ResultTree:
        """Return what episodes with these parameters [size] bring, under the names of all generations.

        Args:
            weights: The parameters to act with.
            statistics: The statistics that the connectors of training have learned.
            goes_on: The function that returns whether the training beside it still runs: the evaluation lasts as long,
                where its duration is "auto".

        Raises:
            EvaluationError: If runners did not answer in time, as many times in a row as settings tolerate.
        """
        config, evaluator = self._config, self.evaluator
        duration, unit = config.evaluation_duration, config.evaluation_duration_unit
        with blas_threads(1):
            if isinstance(duration, int):
                _log.info("Evaluating current policy for %d %s.", duration, unit)
                played = evaluator.play(weights, duration, unit, statistics)
            else:
                steps = config.evaluation_auto_duration_min_env_steps_per_sample
                played = evaluator.play_while(weights, unit, goes_on, steps, statistics)
        self._count_skips(played)
        return self.found(_results(played, evaluator.runners, config))

    def begin(self, weights: Array, statistics: Statistics) -> RunningEvaluation:
        """Begin an evaluation beside training, and return at once."""
        _ = self.evaluator  # Made here, as the training thread starts all actors.
        return RunningEvaluation(lambda goes_on: self.evaluate(weights, statistics, goes_on))

    def by_function(self, function: Callable[..., Any], algorithm: Any, workers: Any) -> ResultTree:
        """Return what a function of the user's finds; the runners have the parameters of now.

        Args:
            function: The user's function. It is called as (algorithm, workers), and returns metrics, or as today these,
                steps of environments and of agents.
            algorithm: The algorithm that is evaluated.
            workers: The runners, as users know them.

        Raises:
            EvaluationError: If it returns something else.
        """
        found = function(algorithm, workers)
        steps: dict[str, Any] = {}
        if isinstance(found, tuple) and len(found) == 3:
            found, env_steps, agent_steps = found
            steps = {"num_env_steps_sampled_this_iter": env_steps, "num_agent_steps_sampled_this_iter": agent_steps}
        if not isinstance(found, Mapping):
            name = getattr(function, "__qualname__", repr(function))
            raise EvaluationError(
                f"custom_evaluation_function {name} returned {found!r}, a {type(found).__name__}: return a dict of "
                "metrics, or (metrics, env steps, agent steps)"
            )
        return self.found({**found, **steps})

    def found(self, results: ResultTree) -> ResultTree:
        """Keep what an evaluation found as the last one, and return it."""
        self.last = results
        return results

    def change_policies(self, config: AlgorithmConfig) -> None:
        """Evaluate with the policies and the mapping of these settings of training from now on."""
        self._config = config
        for made in ("_own_config", "_blueprint"):
            self.__dict__.pop(made, None)
        if self._evaluator is not None:
            self._evaluator.runners.change(self.blueprint, change_policies)

    def close(self) -> None:
        """End the runners."""
        if self._evaluator is not None:
            self._evaluator.close()

    def _count_skips(self, played: Played) -> None:
        self._skipped = 0 if played.env_steps else self._skipped + 1
        most = self._config.evaluation_error_after_n_consecutive_skips
        if most is not None and self._skipped >= most:
            raise EvaluationError(
                f"no runner that evaluates has answered in time, {self._skipped} times in a row "
                f"(evaluation_error_after_n_consecutive_skips={most}): wait longer (evaluation_sample_timeout_s), or "
                "look at what their environments do"
            )

    def _make_evaluator(self) -> Evaluator:
        settings = group_settings_of(self.config, self._cpu_share)
        return Evaluator(
            RunnerGroup(self.blueprint, settings),
            sum(map(len, settings.lanes)),
            begins_anew=self._config.evaluation_force_reset_envs_before_iteration,
            timeout_s=self._config.evaluation_sample_timeout_s,
        )


class RunningEvaluation:
    """Runs an evaluation beside training, in a thread of its own that waits for runners."""

    def __init__(self, evaluate: Callable[[Callable[[], bool]], ResultTree]) -> None:
        """Begin; `evaluate` asks the function that it is given whether training goes on."""
        self._is_training = True
        self._pool = ThreadPoolExecutor(1, "evaluation")
        self._future: Future[ResultTree] = self._pool.submit(evaluate, lambda: self._is_training)

    def end(self) -> ResultTree:
        """Let it know that training is done, wait for it, and return what it found."""
        self._is_training = False
        try:
            return self._future.result()
        finally:
            self._pool.shutdown()


def _results(played: Played, group: RunnerGroup, config: AlgorithmConfig) -> ResultTree:
    window = EpisodeWindow(len(played.episodes))
    window.add(played.episodes)
    return merged(
        episode_results(window),
        evaluation_results(played.reports, keep_each=config.keep_per_episode_custom_metrics),
        {
            "env_runners": {"num_env_steps_sampled": played.env_steps},
            "timesteps_this_iter": played.env_steps,
            "num_env_steps_sampled_this_iter": played.env_steps,
            "num_healthy_workers": group.num_healthy_runners,
        },
    )
