"""Model-agnostic meta-learning (Finn et al., 2017, arXiv 1703.03400), with PPO's loss after adaptation.

The parameters are those from which one or a few steps of policy gradient, on episodes of a new task, lead to a good
policy of that task. Each environment has a task, which is another one in each iteration. An iteration samples by the
parameters, adapts them to each task, samples by the adapted ones, and makes `maml_optimizer_steps` steps down the
gradient of the adapted policies' losses, through the steps of adaptation: see `learners.adaptation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_rllib.algorithms.maml_losses import outer_loss
from kernel_rllib.algorithms.on_policy import actor_critic
from kernel_rllib.algorithms.task_learning import TaskLearning
from kernel_rllib.algorithms.task_rounds import TaskRounds, TaskSource
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.task_sampler import TaskBlueprint
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import HEADS, ONE_PASS, OWN_DISTRIBUTIONS
from kernel_rllib.training.parts import env_maker_of
from kernel_rllib.training.results import EpisodeWindow, ResultTree, episode_results, mean_metrics, merged

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

KINKED = ("relu", "leaky_relu")
"""Activations whose second derivative is zero but at a kink."""


class MAMLConfig(AlgorithmConfig):
    """The settings of MAML."""

    algorithm = "MAML"

    defaults = values(
        lr=1e-3,
        num_env_runners=2,
        rollout_fragment_length=200,
        batch_mode="complete_episodes",
        create_env_on_local_worker=True,
        model=values(vf_share_layers=False),
    )
    in_all_dicts = ("grad_clip",)

    inner_adaptation_steps = Field(1, "How many steps of policy gradient adapt to a task.", range=(1, None))
    maml_optimizer_steps = Field(5, "How many steps an iteration makes down the outer gradient.", range=(1, None))
    inner_lr = Field(0.1, "The learning rate of adaptation, which is plain gradient descent.", above=0)
    use_meta_env = Field(True, "Whether tasks are drawn by sample_tasks() and set in each iteration.")
    meta_batch_size = Field[int | None](
        None, "How many tasks an iteration has; None for one a runner, without runners one an environment.",
        range=(1, None), unit="tasks", since="current",
    )  # fmt: skip
    second_order = Field(
        True, "Whether the outer gradient counts how steps of adaptation depend on parameters.", since="current"
    )
    use_gae = Field(True, "Whether advantages are generalised estimates (GAE).")
    lambda_ = Field(1.0, "How far these look ahead before the value function takes over.", range=(0, 1))
    kl_coeff = Field(0.0005, "The first weight of how far policies before adaptation move.", range=(0, None))
    kl_target = Field(0.01, "The distance that its weight is adapted to reach.", range=(0, None))
    vf_loss_coeff = Field(0.5, "The weight of the value function's loss.", range=(0, None))
    vf_clip_param = Field(10.0, "Where the value function's squared error is clipped.", above=0)
    entropy_coeff = Field(0.0, "The weight of the entropy that is added.", range=(0, None))
    clip_param = Field(0.3, "How far the ratio of new to old probabilities counts: from 1 - it to 1 + it.", above=0)

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        inner_adaptation_steps: int = NOT_PROVIDED,
        maml_optimizer_steps: int = NOT_PROVIDED,
        inner_lr: float = NOT_PROVIDED,
        use_meta_env: bool = NOT_PROVIDED,
        meta_batch_size: int | None = NOT_PROVIDED,
        second_order: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        kl_target: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        vf_clip_param: float = NOT_PROVIDED,
        entropy_coeff: float = NOT_PROVIDED,
        clip_param: float = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how MAML learns; return this config."""
        return self

    @property
    def tasks_at_once(self) -> int:
        """The number of tasks of an iteration."""
        return self.meta_batch_size or self.num_env_runners or self.total_envs

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.in_evaluation:
            return
        if self.total_envs % self.tasks_at_once:
            yield (
                f"{self.total_envs} environments can't be shared equally by {self.tasks_at_once} tasks; set "
                "meta_batch_size to a divisor of their number"
            )
        if self.batch_mode != "complete_episodes":
            yield (
                f"batch_mode={self.batch_mode!r} lets episodes go on with other tasks and parameters; set it to "
                "'complete_episodes'"
            )
        if self.use_meta_env and not self.create_env_on_local_worker:
            yield (
                "use_meta_env=True draws tasks by an environment beside the learner, which "
                "create_env_on_local_worker=False leaves out; leave that at True"
            )
        if self.env_task_fn is not None and self.use_meta_env:
            yield "env_task_fn and use_meta_env=True both set tasks; leave one out"
        if self.second_order and self.model.fcnet_activation in KINKED:
            yield (
                f"model fcnet_activation={self.model.fcnet_activation!r} has a kink, and second derivatives none "
                "there; set it to 'tanh' or 'swish', or second_order to False"
            )


class MAML(Algorithm):
    """Trains parameters from which a few steps adapt to any task."""

    config: MAMLConfig
    config_class = MAMLConfig
    acts_on = HEADS | OWN_DISTRIBUTIONS | {"create_env_on_local_worker"}
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        "input_": "each iteration samples by parameters that were adapted to its tasks",
        "train_batch_size": "an iteration has episodes of rollout_fragment_length steps of each environment",
    }

    def setup(self, config: dict[str, Any]) -> None:
        """Make the runners, and the environment that draws tasks."""
        super().setup(config)
        assert isinstance(self.blueprint, TaskBlueprint)
        self.rounds = TaskRounds(self.runners, self.blueprint, self.config.total_envs)
        self.task_source: TaskSource | None = None
        if self.config.use_meta_env and self.config.create_env_on_local_worker:
            self.task_source = TaskSource(env_maker_of(self.config), self.config.env_config)
        self._test_rounds: TaskRounds | None = None
        self._tests = 0

    def setup_learning(self) -> None:
        """Make what adapts, and what keeps the returns after adaptation."""
        self.task_learning = TaskLearning(self.learner, self.distribution, self.config)
        window, steps = self.config.metrics_num_episodes_for_smoothing, self.config.inner_adaptation_steps
        self.adapted_episodes = [EpisodeWindow(window) for _ in range(steps)]

    def make_blueprint(
        self, config: AlgorithmConfig, seed: int, *, evaluates: bool = False
    ) -> Blueprint | MultiAgentBlueprint:
        """Return the blueprint of the runners' samplers, by settings of training or of evaluation."""
        made = super().make_blueprint(config, seed, evaluates=evaluates)
        if not isinstance(made, Blueprint):
            raise ConfigError(
                f"{self.config.title} adapts the policy of one agent to its tasks, and the environment has several "
                "agents: take PPO, or an environment with one"
            )
        return made if evaluates else TaskBlueprint.of(made, self.config.total_envs // self.config.tasks_at_once)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss of adapted policies. Its gradient goes through the adaptation."""
        return {"maml": self.objective(outer_loss(self.config, self.distribution))}

    # -- an iteration -------------------------------------------------------------------------------------------------

    def training_step(self) -> Metrics:
        """Sample, adapt, and sample again, for new tasks; then make the steps of the optimizer."""
        if self.task_source is not None:
            tasks = self.task_source.draw(self.rounds.tasks, self.stream("tasks", self.learner.version))
            self.rounds.set_tasks(tasks)
        with self.timed("sample"):
            batches = self.play(self.rounds, self._take_round)
        with self.timed("learn"):
            metrics = mean_metrics([self._step(batches) for _ in range(self.config.maml_optimizer_steps)])
        self.broadcast()
        return metrics

    def play(self, rounds: TaskRounds, take: Callable[[int, Sequence[Sample]], None]) -> list[list[Batch]]:
        """Sample before each step of adaptation, and after the last; return what to learn from, [rounds][tasks].

        Args:
            rounds: Sample, with tasks that are set.
            take: Is given the number of each round, and its samples.
        """
        vectors = [self.learner.weights.copy()] * rounds.tasks
        batches: list[list[Batch]] = []
        for number in range(self.config.inner_adaptation_steps + 1):
            samples, fragments = rounds.sample(vectors, self.config.get_rollout_fragment_length())
            take(number, samples)
            batches.append([self.task_learning.experience(*each) for each in zip(vectors, fragments, strict=True)])
            if number < self.config.inner_adaptation_steps:
                vectors = [self.task_learning.adapted(*each) for each in zip(vectors, batches[-1], strict=True)]
        return batches

    def _take_round(self, number: int, samples: Sequence[Sample]) -> None:
        """Count a round. Episodes of the first are those of results, others have windows of their own."""
        if number:
            self.adapted_episodes[number - 1].add(_episodes_of(samples))
            samples = [replace(sample, episodes=[]) for sample in samples]
        self.take_in(samples)

    def _step(self, batches: Sequence[Sequence[Batch]]) -> Metrics:
        """Make one step of the optimizer, by what was sampled [rounds][tasks]."""
        gradient, metrics = self.task_learning.gradient(batches)
        self.env_steps_trained += sum(batch.count for batch in batches[-1])
        vector = self.learner.backend.vector(gradient)
        metrics = self.learner.apply("maml", vector, self.env_steps_sampled, metrics)
        return {**metrics, "cur_lr": metrics["maml_learning_rate"]}

    # -- results and state --------------------------------------------------------------------------------------------

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        """Return the result: returns before adaptation under the usual names, and those after each step."""
        result = super()._result(metrics, began, sampled_before)
        return merged(result, adaptation_results(result, self.adapted_episodes))

    def evaluation_now(self) -> ResultTree:
        """Return what policies earn that were adapted to new tasks, and what they earned before.

        It is played here, with as many environments as in training, for `evaluation_duration` tasks at least. Where
        tasks are not drawn, policies are played as they are.
        """
        if self.task_source is None or self.config.custom_evaluation_function is not None:
            return super().evaluation_now()
        self.reports.call("on_evaluate_start", self)
        rounds = self._rounds_of_tests()
        duration = self.config.evaluation_duration
        least = duration if isinstance(duration, int) else 1
        windows = [EpisodeWindow(least) for _ in range(self.config.inner_adaptation_steps + 1)]
        for _ in range(-(-least // rounds.tasks)):
            self._tests += 1
            rounds.set_tasks(self.task_source.draw(rounds.tasks, self.stream("tests", self._tests)))
            self.play(rounds, lambda number, samples: windows[number].add(_episodes_of(samples)))
        first, last = episode_results(windows[0]), episode_results(windows[-1])
        before, after = first["episode_reward_mean"], last["episode_reward_mean"]
        told = {"episode_reward_mean_before": before, "adaptation_delta": after - before}
        return self._ended(self.evaluations.found({**last, **told}))

    def _rounds_of_tests(self) -> TaskRounds:
        if self._test_rounds is None:
            blueprint = self.make_blueprint(self.config, self.seed + 1)
            assert isinstance(blueprint, TaskBlueprint)
            settings = GroupSettings(lanes=[range(self.config.total_envs)])
            self._test_rounds = TaskRounds(RunnerGroup(blueprint, settings), blueprint, self.config.total_envs)
        self._test_rounds.runners.set_statistics(self.runners.statistics)
        return self._test_rounds

    def own_state(self) -> dict[str, Any]:
        """Return the weights of distances, and returns after adaptation."""
        windows = {str(number): window.state() for number, window in enumerate(self.adapted_episodes)}
        return {"kl_coefficients": list(self.task_learning.kl_coefficients), "adapted_episodes": windows}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        kept = state["kl_coefficients"]
        self.task_learning.kl_coefficients = [float(coefficient) for coefficient in kept]
        for number, window in enumerate(self.adapted_episodes):
            window.set_state(state["adapted_episodes"][str(number)])

    def cleanup(self) -> None:
        """End the runners, and let go of the environments."""
        if self.task_source is not None:
            self.task_source.close()
        if self._test_rounds is not None:
            self._test_rounds.runners.close()
        super().cleanup()


def adaptation_results(result: Mapping[str, Any], windows: Sequence[EpisodeWindow]) -> ResultTree:
    """Return the returns after each step of adaptation, and how much more they are after the last one."""
    found: ResultTree = {}
    for number, window in enumerate(windows, start=1):
        after = episode_results(window)
        for name in ("episode_reward_max", "episode_reward_min", "episode_reward_mean", "episode_len_mean"):
            found[f"{name}_adapt_{number}"] = after[name]
    last = found[f"episode_reward_mean_adapt_{len(windows)}"]
    return {**found, "adaptation_delta": last - result["episode_reward_mean"]}


def _episodes_of(samples: Sequence[Sample]) -> list[EpisodeSummary]:
    return sorted(episode for sample in samples for episode in sample.episodes)
