"""The algorithm: settings, runners and learners, and the loop of iterations over them.

An algorithm of its own writes `make_module`, `make_objectives`, and `learn`, or all of `training_step`; what else there
is to write is in `policy_learning`, all other things are here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.building import set_builder
from kernel_rllib.config.dict_generation import generation_of_keys
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.errors import ConfigError, StoppedError
from kernel_rllib.learners.group import LearnerGroup
from kernel_rllib.learners.learner import Learner, Metrics
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.scripted_lanes import ScriptedBlueprint
from kernel_rllib.training.acting import PolicyActing
from kernel_rllib.training.algorithm_state import AlgorithmState
from kernel_rllib.training.changing_policies import ChangingPolicies
from kernel_rllib.training.cpu_shares import share_of_runners, shared_bundles
from kernel_rllib.training.curriculum import Curriculum
from kernel_rllib.training.env_check import check_env_of
from kernel_rllib.training.evaluating import Evaluations
from kernel_rllib.training.evaluation_methods import EvaluationMethods
from kernel_rllib.training.honoured import refuse_what_has_no_effect
from kernel_rllib.training.multi_agent import learning_policies, policies_of
from kernel_rllib.training.parts import env_maker_of, group_settings_of
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.progress import Progress
from kernel_rllib.training.recorded_runs import RecordedRuns
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.results import (
    EpisodeWindow,
    ResultTree,
    agent_results,
    episode_results,
    learner_results,
    merged,
)
from kernel_rllib.training.spaces import spaces_of
from kernel_rllib.training.system_usage import SystemUsage
from kernel_runs.resources import PlacementGroupFactory


class Algorithm(PolicyActing, ChangingPolicies, EvaluationMethods, RecordedRuns, AlgorithmState):
    """Trains policies in an environment, iteration by iteration."""

    config: AlgorithmConfig
    config_class: ClassVar[type[AlgorithmConfig]] = AlgorithmConfig
    is_stopped = False
    """Whether `stop` was called."""
    curriculum: Curriculum | None = None
    """Sets the tasks of the environments, where `env_task_fn` is given."""

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

    @property
    def learner(self) -> Learner:
        """The learner of the only policy.

        Raises:
            ConfigError: If there are several policies.
        """
        if not hasattr(self, "_learner"):
            ids = ", ".join(map(repr, self.learners))
            raise ConfigError(f"{self.config.title} has several policies: ask for learners[...] of one of {ids}")
        return self._learner

    @learner.setter
    def learner(self, learner: Learner) -> None:
        self._learner = learner

    # -- building -----------------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Make environments, module, learner and runners."""
        self.config = self._settings  # the base class keeps it as a dict
        self.config.validate()
        refuse_what_has_no_effect(self.config, self.settings_acted_on(), self.without)
        self.check_default_policy()
        self.config.freeze()
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if self.config.seed is None else self.config.seed
        self.progress, self.reports = Progress(), Reports(self.config)
        self.policies: dict[str, PolicyLearning] = {}
        """The policies that learn, by their ids. With only one, this is the algorithm itself."""
        self.scripted: dict[str, ScriptedBlueprint] = {}
        """The policies that are of a class of the user's own, and do not learn."""
        look = partial(check_env_of, self.config, validate=self.validate_env)
        specs = policies_of(self.config, look)
        self.has_several_agents = specs is not None
        if specs is None:
            given = self.config.observation_space, self.config.action_space
            self.policies[DEFAULT_POLICY_ID] = self
            self.begin_learning(
                DEFAULT_POLICY_ID,
                self.config,
                spaces_of(env_maker_of(self.config), self.config.env_config, *given, look),
            )
        else:
            self.begin_policies(specs)
        self.learners = LearnerGroup({module_id: policy.learner for module_id, policy in self.policies.items()})
        self.blueprint = self.make_blueprint(self.config, self.seed)
        self.cpu_share = share_of_runners(self.config)
        """The most CPUs that a runner reserves, where all machines have fewer than runners ask for; otherwise None."""
        self.runners = self.make_runners(self.group_settings())
        if self.config.env_task_fn is not None:
            self.curriculum = Curriculum(self.config.env_task_fn)
            self.curriculum.check(self.runners)
        self.evaluations = Evaluations(self.config, self.make_blueprint, self.seed, self.cpu_share)
        self.system_usage = SystemUsage() if self.config.log_sys_usage else None
        self.episodes = EpisodeWindow(self.config.metrics_num_episodes_for_smoothing)
        if self.runners.local is not None and isinstance(self.runners.local.sampler, ExternalSampler):
            self.runners.local.sampler.envs.env.acting.get_policy = self.get_policy
        self.broadcast()

    @staticmethod
    def validate_env(env: Any, env_context: EnvContext) -> None:
        """Raise an error for an environment that this algorithm can't be trained in; override it to demand something.

        Args:
            env: One environment, after its first step. Those that are trained in are others.
            env_context: The context that the environment was made with.
        """

    @classmethod
    def get_default_policy_class(cls, config: AlgorithmConfig) -> type | None:
        """Return the class of policies that name none in their `PolicySpec`; None for this algorithm's own.

        An algorithm with a loss learns by it alone. One that a policy of the user's own learns for is made by
        `build_trainer(default_policy=...)`, and this may return another class of policies there.

        Args:
            config: The settings.
        """
        return None

    @classmethod
    def default_resource_request(cls, config: AlgorithmConfig | Mapping[str, Any]) -> PlacementGroupFactory:
        """Return what a trial of Tune reserves: a bundle for the algorithm, and one for each runner and learner.

        Where all machines together have too few CPUs for one trial, its runners share what the others leave.
        Settings that are wrong reserve what one process does: the trial that they build says what is wrong with them.

        Args:
            config: The settings of the trial, as the constructor takes them.
        """
        try:
            settings = cls._config_of(config, None)
        except (ConfigError, TypeError, ValueError):
            settings = cls.config_class().env_runners(num_env_runners=0)
        return PlacementGroupFactory(shared_bundles(settings), settings.placement_strategy)

    @classmethod
    def resource_help(cls, config: AlgorithmConfig | Mapping[str, Any]) -> str:
        """Return which settings say what a trial reserves."""
        return (
            f"A trial of {cls.__name__} reserves num_cpus_for_main_process CPUs, and num_cpus_per_env_runner for each "
            "of num_env_runners: fewer runners, or num_cpus_per_env_runner=0, need fewer."
        )

    def check_default_policy(self) -> None:
        """Raise ConfigError where a class of policies was chosen that this algorithm does not learn with."""
        chosen = self.get_default_policy_class(self.config)
        if chosen is not None:
            raise ConfigError(
                f"{type(self).__name__}.get_default_policy_class() returned {getattr(chosen, '__name__', chosen)}, but "
                f"{self.config.algorithm or type(self).__name__} learns by its own loss: return None, or let the "
                "policy learn itself, in a trainer of build_trainer(default_policy=...)"
            )

    @property
    def learns_several(self) -> bool:
        """Whether the algorithm can train several policies: it writes `learn`, and not all of `training_step`."""
        made = type(self)
        return made.learn is not PolicyLearning.learn and made.training_step is Algorithm.training_step

    def make_blueprint(
        self, config: AlgorithmConfig, seed: int, *, evaluates: bool = False
    ) -> Blueprint | MultiAgentBlueprint:
        """Return the blueprint of the runners' samplers, by settings of training or of evaluation."""
        made = super().make_blueprint(config, seed, evaluates=evaluates)
        if not config.render_env:
            return made
        directory = config.render_env if isinstance(config.render_env, str) else self.logdir
        if evaluates:  # training may have videos of the same names
            directory = os.path.join(directory, "evaluation")
        return replace(made, envs=replace(made.envs, videos=os.path.abspath(os.path.expanduser(directory))))

    def group_settings(self) -> GroupSettings:
        """Return how many runners there are, and how they live."""
        return group_settings_of(self.config, self.cpu_share)

    # -- an iteration -------------------------------------------------------------------------------------------------

    def step(self) -> ResultTree:
        """Train until the least time and steps of an iteration are reached, and return its result.

        Raises:
            StoppedError: If the algorithm was stopped before.
        """
        if self.is_stopped:
            raise StoppedError(
                f"{type(self).__name__} was stopped, and its runners have ended: call stop() last, or go on from a "
                f"checkpoint with Algorithm.from_checkpoint(path)"
            )
        if type(self).restore_workers is not Algorithm.restore_workers:
            self.restore_workers(self.workers)
        began, sampled_before = time.perf_counter(), self.env_steps_sampled
        trained_before = self.env_steps_trained
        is_due = self.evaluations.is_due(self.iteration + 1)
        beside = self.begin_evaluation() if is_due and self.evaluations.is_parallel else None
        self.progress.seconds.clear()
        self.progress.seconds.update(sample=0.0, learn=0.0)
        for policy in self.policies.values():
            policy._iteration = self._iteration
        with blas_threads(1):
            metrics = self.training_step()
            while not self._is_enough(began, sampled_before, trained_before):
                metrics = self.training_step()
        result = self._result(metrics, began, sampled_before)
        if is_due:
            result["evaluation"] = self.evaluation_now() if beside is None else self.end_evaluation(beside)
        elif self.config.always_attach_evaluation_results and self.evaluations.last is not None:
            result["evaluation"] = self.evaluations.last
        return result

    def training_step(self) -> Metrics:
        """Sample, let each policy learn from its part, and return what learners report: of several, by policy."""
        fragments = self.sample_for_training()
        self.take_estimates(fragments)
        with self.timed("learn"):
            chosen = learning_policies(self.config, fragments, list(self.policies), self.progress.env_steps_new)
            metrics = self.learn_policies(chosen, fragments)
        self.hand_over_update()
        return metrics.get(self.module_id, {}) if self.is_its_only_policy else metrics

    def learn_policies(self, chosen: Sequence[str], fragments: Mapping[str, Sequence[Fragment]]) -> dict[str, Metrics]:
        """Let policies learn from what was sampled, by default each from its part; return what learners report."""
        return {policy_id: self.policies[policy_id].learn_from_fragments(fragments[policy_id]) for policy_id in chosen}

    def hand_over_update(self) -> None:
        """Let runners act with what was learned in this training step."""
        self.broadcast()

    def sample_for_training(self) -> dict[str, list[Fragment]]:
        """Return the fragments of one training step by module: of as many rounds of all lanes as it takes."""
        least = 0 if self.train_rounds else self.config.total_train_batch_size
        progress, env_steps = self.progress, self.env_steps_sampled
        counts_agents = self.config.count_steps_by == "agent_steps"
        before = progress.agent_steps_sampled if counts_agents else env_steps
        found: dict[str, list[Fragment]] = {}
        made = 0
        while not found or made < least:
            for module_id, fragment in self.sample_all().items():
                found.setdefault(module_id, []).append(fragment)
            made = (progress.agent_steps_sampled if counts_agents else self.env_steps_sampled) - before
        progress.env_steps_new = self.env_steps_sampled - env_steps
        self.ask_ahead()
        return found

    def ask_ahead(self) -> None:
        """Let runners begin the next train batch with the parameters of now, where sampling is pipelined."""
        with self.timed("sample"):
            for _ in range(self.config.rounds_ahead - self.runners.rounds_asked):
                self.runners.request(self.config.get_rollout_fragment_length)

    def sample(self) -> Fragment:
        """Step all lanes as often as the settings say, and return what happened, in the order of lanes."""
        found: dict[str, Fragment] = {}
        while self.module_id not in found:  # agents may need several steps to complete one of theirs
            found = self.sample_all()
        return found[self.module_id]

    def sample_all(self) -> dict[str, Fragment]:
        """Step all lanes as often as the settings say, and return what happened by module, in the order of lanes."""
        with self.timed("sample"):
            samples = self.runners.sample(self.config.get_rollout_fragment_length)
        self.take_in(samples)
        by_module: dict[str, list[Fragment]] = {}
        for sample in samples:
            for module_id, fragment in sample.fragments.items():
                by_module.setdefault(module_id, []).append(fragment)
        found = {module_id: joined(fragments) for module_id, fragments in by_module.items()}
        if self.has_several_agents:
            for module_id, fragment in found.items():
                self.progress.module_steps[module_id] = self.progress.module_steps.get(module_id, 0) + fragment.steps
        return found

    def take_in(self, samples: Sequence[Sample]) -> None:
        """Count the steps and episodes of samples, and take over what is reported of them."""
        self.episodes.add(sorted(episode for sample in samples for episode in sample.episodes))
        self.reports.take_in(sample.report for sample in samples)
        self.reports.tell_of_new_runners(self, self.runners, is_evaluation=False)
        self.env_steps_sampled += sum(sample.env_steps for sample in samples)
        self.progress.agent_steps_sampled += sum(sample.agent_steps for sample in samples)

    def cleanup(self) -> None:
        """End the runners."""
        self.is_stopped = True
        self.runners.close()
        self.evaluations.close()
        self.end_recording()

    def log_result(self, result: dict[str, Any]) -> None:
        """Let callbacks see, and change, the result of an iteration; set tasks by it; then log it."""
        self.reports.call("on_train_result", self, result=result)
        if self.curriculum is not None:
            self.blueprint = self.curriculum.advance(result, self.runners, self.blueprint)
        super().log_result(result)

    # -- inside -------------------------------------------------------------------------------------------------------

    @classmethod
    def _config_of(cls, config: AlgorithmConfig | Mapping[str, Any] | None, env: Any) -> AlgorithmConfig:
        if not isinstance(config, AlgorithmConfig):
            config = cls.config_class.from_dict(
                config or {}, generation=generation_of_keys(cls.config_class, config or {})
            )
        elif not isinstance(config, cls.config_class):
            config = cls.config_class.from_dict(config.set_values(), generation=config.generation)
        if env is not None:
            config = config.copy(copy_frozen=False).environment(env)
        return config

    def _is_enough(self, began: float, sampled_before: int, trained_before: int) -> bool:
        config = self.config
        least_trained = config.min_train_timesteps_per_iteration or 0
        return (
            time.perf_counter() - began >= (config.min_time_s_per_iteration or 0)
            and self.env_steps_sampled - sampled_before >= (config.min_sample_timesteps_per_iteration or 0)
            # Before the first update, and where an algorithm does not count the steps of updates, samples are enough.
            and (self.env_steps_trained - trained_before >= least_trained or not self.env_steps_trained)
        )

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        seconds = time.perf_counter() - began
        return merged(
            agent_results(()) if self.has_several_agents else {},
            episode_results(self.episodes),
            self.reports.results(),
            {} if self.system_usage is None else {"perf": self.system_usage.measure()},
            learner_results({self.module_id: metrics} if self.is_its_only_policy else metrics),
            self.progress.results(self.env_steps_sampled - sampled_before, seconds),
            self.estimates_made(),
            {"num_healthy_workers": self.runners.num_healthy_runners},
        )


def _build(algorithm: Any, config: AlgorithmConfig, logger_creator: Any) -> Any:
    """Return the algorithm of a config: what its `build` calls."""
    if isinstance(algorithm, str):
        algorithm = algorithm_class(algorithm)
    return algorithm(config=config, logger_creator=logger_creator)


def _known(name: str) -> Any:
    """Return the class of an algorithm, and the name itself of one that is not known: a config may have any."""
    return algorithm_class(name) if name in ALGORITHMS else name


set_builder(_build, _known)
