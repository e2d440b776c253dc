"""The algorithm: settings, runners and a learner, and the loop of iterations over them.

An algorithm of its own writes `make_module`, `make_objectives` and `training_step`; all else is here.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.access import PolicyAccess
from kernel_rllib.algorithms.evaluating import Evaluations
from kernel_rllib.algorithms.honoured import refuse_what_has_no_effect
from kernel_rllib.algorithms.keeping import Keeping
from kernel_rllib.algorithms.parts import blueprint_of, env_settings_of, env_to_module_of, group_settings_of
from kernel_rllib.algorithms.registry import ALGORITHMS, algorithm_class
from kernel_rllib.algorithms.reports import Reports
from kernel_rllib.algorithms.results import EpisodeWindow, ResultTree, episode_results, learner_results, merged
from kernel_rllib.algorithms.spaces import spaces_of
from kernel_rllib.checkpoints.layout import write_checkpoint
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.building import set_builder
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration, StochasticSampling
from kernel_rllib.learners.learner import Learner, Loss, Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.nn import philox
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.spaces.action_rows import row_space

DEFAULT_POLICY_ID = "default_policy"


class Algorithm(PolicyAccess, Keeping):
    """Trains a policy in an environment, iteration by iteration."""

    config: AlgorithmConfig
    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    acts_on: ClassVar[frozenset[str]] = frozenset()
    """Settings that this algorithm acts on, of those that not all do; options of the model as `"model/use_lstm"`."""

    def __init__(
        self,
        config: AlgorithmConfig | Mapping[str, Any] | None = None,
        env: Any = None,
        logger_creator: Callable[..., Any] | None = None,
    ) -> None:
        """Build the algorithm.

        Args:
            config: Its settings, as a config or as a dict of any generation; None for the defaults.
            env: The environment, in place of the config's.
            logger_creator: Makes what logs results, given the config.
        """
        self._settings = self._config_of(config, env)
        super().__init__(self._settings.to_dict(), logger_creator)
        self.reports.call("on_algorithm_init", self)

    # -- what an algorithm of its own writes --------------------------------------------------------------------------

    @abstractmethod
    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the module that acts and learns.

        Args:
            observation: The shape of one row of observations, as connectors give it.
            distribution: The distribution of actions.
        """

    @abstractmethod
    def make_objectives(self) -> Mapping[str, Objective]:
        """Return what the learner makes small."""

    @abstractmethod
    def training_step(self) -> Metrics:
        """Sample and learn once, and return what the learner reports."""

    def own_state(self) -> dict[str, Any]:
        """Return what this algorithm has to keep beside what all have, as `checkpoints.tree` takes it."""
        return {}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""

    def make_distribution(self, action_space: Any) -> Distribution:
        """Return the distribution of actions of a space, as rows that are counted from 0."""
        return for_space(row_space(action_space), free_log_std=bool(self.config.model.free_log_std))

    def make_exploration(self) -> Exploration:
        """Return how actions are chosen while training."""
        return StochasticSampling(self.distribution)

    # -- building -----------------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Make environments, module, learner and runners."""
        self.config = self._settings  # the base class keeps it as a dict
        self.config.validate()
        refuse_what_has_no_effect(self.config, self.acts_on)
        self.config.freeze()
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if self.config.seed is None else self.config.seed
        envs = env_settings_of(self.config)
        self.spaces = spaces_of(
            envs.maker, self.config.env_config, self.config.observation_space, self.config.action_space
        )
        self.distribution = self.make_distribution(self.spaces.action)
        self.learner = self._make_learner()
        module, exploration = self.learner.module, self.make_exploration()
        self.blueprint = blueprint_of(self.config, envs, self.spaces, module, exploration, self.seed)
        self.runners = RunnerGroup(self.blueprint, group_settings_of(self.config))
        self.evaluations = Evaluations(self.config, self.spaces, module, self.make_exploration, self.seed)
        held = LearnerParameters(self.learner, self.broadcast)
        self.inference = Inference.of_blueprint(
            self.blueprint, held, self.stream("inference"), lambda: self.runners.statistics
        )
        self.episodes = EpisodeWindow(self.config.metrics_num_episodes_for_smoothing)
        self.reports = Reports(self.config)
        self.env_steps_sampled = 0
        self.env_steps_trained = 0
        self._seconds: dict[str, float] = {}
        self.broadcast()

    def stream(self, *purpose: int | str) -> np.random.Generator:
        """Return a generator of random numbers for a purpose: the same ones for the same seed and purpose."""
        return philox.stream(self.seed, *purpose)

    # -- an iteration -------------------------------------------------------------------------------------------------

    def step(self) -> ResultTree:
        """Train until the least time and steps of an iteration are reached, and return its result."""
        began, sampled_before = time.perf_counter(), self.env_steps_sampled
        self._seconds = dict.fromkeys(("sample", "learn"), 0.0)
        with blas_threads(1):
            metrics = self.training_step()
            while not self._is_enough(began, sampled_before):
                metrics = self.training_step()
        result = self._result(metrics, began, sampled_before)
        if self.evaluations.is_due(self.iteration + 1):
            result["evaluation"] = self._evaluated()
        return result

    def evaluate(self) -> ResultTree:
        """Play episodes by the settings for evaluation, with the parameters of now, and return what they bring."""
        found = self._evaluated()
        return {**found, "evaluation": found}

    def sample(self) -> Fragment:
        """Step all lanes as often as the settings say, and return what happened, in the order of lanes."""
        with self.timed("sample"):
            samples = self.runners.sample(self.config.get_rollout_fragment_length)
        self.episodes.add(sorted(episode for sample in samples for episode in sample.episodes))
        self.reports.take_in(sample.report for sample in samples)
        self._tell_of_new_runners(self.runners, is_evaluation=False)
        self.env_steps_sampled += sum(sample.env_steps for sample in samples)
        return joined([sample.fragments[DEFAULT_POLICY_ID] for sample in samples])

    def update(self, batch: Batch, only: Sequence[str] | None = None) -> Metrics:
        """Let the learner make one step for each objective, or for those in `only`, and count its rows."""
        self.env_steps_trained += batch.count
        told = self.reports.before_learning(self.learner, self.spaces, batch)
        return {**self.learner.update(batch, self.env_steps_sampled, only), **told}

    def objective(self, loss: Loss, trainable: tuple[str, ...] | None = None, *, lr: str = "lr") -> Objective:
        """Return an objective with the optimizer, learning rate and clipping that the settings say.

        Args:
            loss: What is to be small.
            trainable: What the names of the parameters begin with that it is over; None for all.
            lr: The name of the setting that is its learning rate.
        """
        limit, by = self.config.grad_clipping or (None, "global_norm")
        return Objective(
            loss,
            schedule(getattr(self.config, lr), lr),
            optimizer_settings=dict(self.config.optimizer),
            clip=limit,
            clip_by=by,
            trainable=trainable,
        )

    def timed(self, phase: str) -> _Timed:
        """Return a context that counts its seconds as those of a phase of the iteration."""
        return _Timed(self._seconds, phase)

    def broadcast(self) -> None:
        """Let all runners act with the learner's parameters of now."""
        self.runners.set_weights(self.learner.weights, self.learner.version)

    def cleanup(self) -> None:
        """End the runners."""
        self.runners.close()
        self.evaluations.close()

    # -- keeping ------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return all that training needs to go on elsewhere, as arrays and numbers."""
        return {
            "algorithm_class": type(self),
            "config": self.config.get_state(),
            "algorithm": {
                "seed": self.seed,
                "env_steps_sampled": self.env_steps_sampled,
                "env_steps_trained": self.env_steps_trained,
                "episodes": self.episodes.state(),
                "reports": self.reports.state(),
                **self.own_state(),
            },
            "learners": {DEFAULT_POLICY_ID: self.learner.state()},
            "runners": self.runners.state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `get_state` returned."""
        own = state["algorithm"]
        self.seed = int(own["seed"])
        self.env_steps_sampled = int(own["env_steps_sampled"])
        self.env_steps_trained = int(own["env_steps_trained"])
        self.episodes.set_state(own["episodes"])
        if "reports" in own:
            self.reports.set_state(own["reports"])
        self.set_own_state(own)
        self.learner.set_state(state["learners"][DEFAULT_POLICY_ID])
        self.runners.set_state(state["runners"])
        self.broadcast()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write all that training needs to go on; see `checkpoints.layout`."""
        description = {
            "algorithm": self.config.algorithm or type(self).__name__,
            "training_iteration": self.iteration,
            "env_steps_sampled": self.env_steps_sampled,
        }
        write_checkpoint(checkpoint_dir, description, self.get_state(), self.describe)

    def checkpoint_loaded(self) -> None:
        """Let callbacks hear that a checkpoint has been loaded."""
        self.reports.call("on_checkpoint_loaded", self)

    def log_result(self, result: dict[str, Any]) -> None:
        """Let callbacks see, and change, the result of an iteration; then log it."""
        self.reports.call("on_train_result", self, result=result)
        super().log_result(result)

    def learners_by_id(self) -> Mapping[str, Learner]:
        """Return the learner of each module, by its id."""
        return {DEFAULT_POLICY_ID: self.learner}

    # -- inside -------------------------------------------------------------------------------------------------------

    @classmethod
    def _config_of(cls, config: AlgorithmConfig | Mapping[str, Any] | None, env: Any) -> AlgorithmConfig:
        if not isinstance(config, AlgorithmConfig):
            config = cls.config_class.from_dict(config or {})
        elif not isinstance(config, cls.config_class):
            config = cls.config_class.from_dict(config.set_values(), generation=config.generation)
        if env is not None:
            config = config.copy(copy_frozen=False).environment(env)
        return config

    def _make_learner(self) -> Learner:
        observation = env_to_module_of(self.config, self.spaces).shape
        module = self.make_module(observation, self.distribution)
        return Learner(module, backend(self._framework()), self.make_objectives(), self.stream("parameters"))

    def _evaluated(self) -> ResultTree:
        return self.evaluations.evaluate(self.learner.weights, self.learner.version, self.runners.statistics)

    def _tell_of_new_runners(self, group: RunnerGroup, *, is_evaluation: bool) -> None:
        indices = group.take_replaced()
        if indices:
            given = {"env_runner_group": self.workers, "env_runner_indices": indices, "is_evaluation": is_evaluation}
            self.reports.call("on_env_runners_recreated", self, **given)
            self.reports.call(
                "on_workers_recreated", self, worker_set=self.workers, worker_ids=indices, is_evaluation=is_evaluation
            )

    def _framework(self) -> str:
        return "torch" if self.config.framework_str == "torch" else "numpy"

    def _is_enough(self, began: float, sampled_before: int) -> bool:
        config = self.config
        return time.perf_counter() - began >= (config.min_time_s_per_iteration or 0) and (
            self.env_steps_sampled - sampled_before >= (config.min_sample_timesteps_per_iteration or 0)
        )

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        seconds = time.perf_counter() - began
        sampled = self.env_steps_sampled - sampled_before
        return merged(
            episode_results(self.episodes),
            self.reports.results(),
            learner_results({DEFAULT_POLICY_ID: metrics}),
            {
                "env_runners": {
                    "num_env_steps_sampled": sampled,
                    "num_env_steps_sampled_lifetime": self.env_steps_sampled,
                },
                "num_env_steps_sampled_lifetime": self.env_steps_sampled,
                "num_env_steps_sampled": self.env_steps_sampled,
                "num_env_steps_trained": self.env_steps_trained,
                "timesteps_total": self.env_steps_sampled,
                "num_env_steps_sampled_throughput_per_sec": sampled / seconds,
                "num_healthy_workers": self.runners.num_healthy_runners,
                "timers": {f"{phase}_time_ms": spent * 1000 for phase, spent in self._seconds.items()},
                "info": {
                    "num_env_steps_sampled": self.env_steps_sampled,
                    "num_env_steps_trained": self.env_steps_trained,
                },
            },
        )


class _Timed:
    """Adds the seconds that a `with` block takes to those of its phase."""

    def __init__(self, seconds: dict[str, float], phase: str) -> None:
        self._seconds, self._phase = seconds, phase

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + time.perf_counter() - self._began


def _build(algorithm: Any, config: AlgorithmConfig, logger_creator: Any) -> Any:
    """Return the algorithm of a config: what its `build` calls."""
    if algorithm is None:
        raise ConfigError(
            f"{config.title} names no algorithm, so nothing can be built of it: take the config of one, such as "
            "PPOConfig()."
        )
    if isinstance(algorithm, str):
        algorithm = algorithm_class(algorithm)
    return algorithm(config=config, logger_creator=logger_creator)


def _known(name: str) -> Any:
    """Return the class of an algorithm, and the name itself of one that is not known: a config may have any."""
    return algorithm_class(name) if name in ALGORITHMS else name


set_builder(_build, _known)
