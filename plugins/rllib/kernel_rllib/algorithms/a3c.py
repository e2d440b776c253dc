"""Asynchronous advantage actor-critic (Mnih et al., 2016, arXiv 1602.01783).

Each runner computes gradients of its own experience, with the parameters that it holds. They are applied one by one, as
they come, and the runner that sent one gets new parameters; the others go on with what they hold. In which order they
come is for the machine to say: with several runners, two runs with the same seed end differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from kernel_rllib.algorithms.advantages import estimate_advantages
from kernel_rllib.algorithms.on_policy import (
    actor_critic,
    critic_problems,
    experience,
    mean_over,
    refuse_several_agents,
    whole,
)
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import Sequences
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Learner, Loss, Metrics, Objective
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn import philox
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.sampler import Sampler
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ACTOR_CRITIC, ONE_PASS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

READ = (columns.OBS, columns.ACTIONS, columns.ADVANTAGES, columns.VALUE_TARGETS)
"""The columns of a batch that the loss reads."""


class A3CConfig(AlgorithmConfig):
    """The settings of A3C."""

    algorithm = "A3C"

    defaults = values(
        lr=0.0001,
        grad_clip=40.0,
        num_env_runners=2,
        rollout_fragment_length=10,
        min_time_s_per_iteration=5,
        sample_async=True,
        use_exec_api=Default(False, older={"0.8.5": True}),
    )
    in_all_dicts = ("grad_clip",)
    more_in_0_8_5 = values(lr_schedule=None)

    use_critic = Field(True, "Whether advantages are measured against a value function.")
    use_gae = Field(True, "Whether they are generalised estimates (GAE), which need the value function.")
    lambda_ = Field(1.0, "How far these look ahead before the value function takes over.", range=(0, 1))
    vf_loss_coeff = Field(0.5, "The weight of the value function's loss.", range=(0, None))
    entropy_coeff = Field[float | Schedule](
        0.01, "The weight of the entropy that is added, or its schedule over env steps.", range=(0, None)
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how A3C learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from critic_problems(self)
        if self.sample_async and not self.num_env_runners and not self.in_evaluation and self.generation != "0.8.5":
            yield "sample_async=True needs runners, but num_env_runners=0; set that to 1, or sample_async to False"


class A3C(Algorithm):
    """Runners that learn from what they sample, each by itself, and send gradients instead of experience."""

    config: A3CConfig
    config_class = A3CConfig
    learns_in_runners = True
    acts_on = ACTOR_CRITIC | {"sample_async"}
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **dict.fromkeys(
            ("train_batch_size", "train_batch_size_per_learner"),
            "each fragment of a runner is a batch, whose length is rollout_fragment_length",
        ),
    }

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss of advantage actor-critics."""
        entropy = schedule(self.config.entropy_coeff, "entropy_coeff")
        loss = actor_critic_loss(self.config, self.distribution, lambda: entropy.value(self.env_steps_sampled))
        return {"a3c": self.objective(loss)}

    def group_settings(self) -> GroupSettings:
        """Return those of all algorithms, and let runners send gradients."""
        refuse_several_agents(self.config.title, self.has_several_agents)
        work = GradientWork(self.config, self.learner.module, self.distribution, self.learner.backend.name)
        return replace(super().group_settings(), work=work)

    def training_step(self) -> Metrics:
        """Apply as many gradients as there are runners, each when it comes, and give its runner new parameters.

        With `sample_async`, a runner is asked for its next gradient before its last one is applied: it never waits, and
        its parameters are a step older.
        """
        reports = []
        ahead = 2 if self.config.sample_async and self.config.num_env_runners else 1
        for _ in range(max(self.runners.num_healthy_runners, 1)):
            with self.timed("sample"):
                self.runners.keep_asked(self.config.get_rollout_fragment_length, ahead)
                sample = self.runners.collect_first()
            with self.timed("learn"):
                reports.append(self._take(sample))
            self.broadcast()
        lags = [report["gradient_lag"] for report in reports]
        return {**mean_metrics(reports), "gradient_lag_min": min(lags), "gradient_lag_max": max(lags)}

    def _take(self, sample: Sample) -> Metrics:
        """Apply the gradient that a runner sent: the asynchronous update of algorithm S3."""
        sent: Gradient = sample.made
        self.take_in([sample])
        self.env_steps_trained += sent.count
        lag = self.learner.version - sent.version
        gradient = self.learner.backend.vector(sent.gradient)
        metrics = self.learner.apply("a3c", gradient, self.env_steps_sampled, sent.metrics)
        return {**metrics, "gradient_lag": float(lag)}


@dataclass
class Gradient:
    """Holds the gradient that a runner sends in place of its experience.

    Attributes:
        metrics: The metrics of the loss.
        gradient: The gradient by all parameters [size].
        version: The version of the parameters that it was computed with.
        count: The number of steps that it was computed from.
    """

    metrics: Metrics
    gradient: Array
    version: int
    count: int


class GradientWork:
    """Makes the gradient of a runner's sample, where the runner is."""

    def __init__(self, config: A3CConfig, module: Module, distribution: Distribution, framework: str) -> None:
        """Take what a learner is made of; it is made when it is first needed, in the runner's process."""
        self._config, self._module, self._distribution = config, module, distribution
        self._framework = framework
        self._learner: Learner | None = None
        self._entropy = schedule(config.entropy_coeff, "entropy_coeff")
        self._timestep = 0

    def __call__(self, runner: EnvRunner, sample: Sample) -> Sample:
        """Return the sample with its gradient in place of its experience."""
        learner = self._learner = self._learner or self._make_learner()
        acting = cast(Sampler, runner.sampler)  # There is one agent, as there is one policy.
        learner.vector[...] = learner.backend.vector(acting.weights)
        self._timestep = acting.timestep
        batch = whole(actor_critic_experience(learner, [sample.fragments[DEFAULT_POLICY_ID]], self._config))
        metrics, gradient = learner.gradient("a3c", batch)
        sent = Gradient(metrics, learner.backend.to_numpy(gradient).copy(), acting.weights_version, batch.count)
        return replace(sample, fragments={}, made=sent)

    def _make_learner(self) -> Learner:
        loss = actor_critic_loss(self._config, self._distribution, lambda: self._entropy.value(self._timestep))
        objective = Objective(loss, schedule(0.0, "lr"), optimizer="sgd")  # Only gradients are computed, without steps.
        return Learner(self._module, backend(self._framework), {"a3c": objective}, philox.stream(0))


def actor_critic_experience(learner: Learner, fragments: Sequence[Fragment], config: A3CConfig) -> Batch | Sequences:
    """Return what is learned from: steps with advantages, in sequences where the module remembers.

    With `lambda_` 1, an advantage is that of algorithm S3: the rewards to the end of the fragment, completed by the
    value of what is observed there, less the value of where they begin.

    Args:
        learner: The learner whose value function advantages are measured against.
        fragments: The steps that were sampled with the learner's parameters.
        config: The settings.
    """
    for fragment in fragments:
        estimate_advantages(
            learner,
            fragment,
            gamma=config.gamma,
            lambda_=config.lambda_,
            use_gae=config.use_gae,
            use_critic=config.use_critic,
        )
    return experience(learner.module, fragments, READ, config.model.max_seq_len)


def actor_critic_loss(config: Any, distribution: Distribution, entropy_coefficient: Callable[[], float]) -> Loss:
    """Return the loss of advantage actor-critics.

    L = mean( -log pi(a|s) A + c (R - V(s))^2 / 2 - b H(pi(s)) ): its gradient is that of section 4 and algorithm S3,
    with the entropy of that section. It is the mean over steps, where the paper has the sum: so `grad_clip` and the
    learning rate mean the same for fragments of any length.

    Args:
        config: Gives c (`vf_loss_coeff`), and whether there are values (`use_critic`).
        distribution: The policy's.
        entropy_coefficient: Gives b, which may follow a schedule.
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
        mean, coefficient = mean_over(nn, batch), entropy_coefficient()
        outputs = module.train(nn, parameters, batch)
        inputs = outputs[columns.ACTION_DIST_INPUTS]
        advantages = nn.constant(batch[columns.ADVANTAGES])
        actions = nn.constant(batch[columns.ACTIONS])
        log_probs, entropies = distribution.log_prob_and_entropy(nn, inputs, actions)
        policy_loss, entropy = -mean(log_probs * advantages), mean(entropies)
        total = policy_loss - coefficient * entropy
        metrics = {"policy_loss": policy_loss, "entropy": entropy, "entropy_coeff": coefficient}
        if config.use_critic:
            error = outputs[columns.VF_PREDS] - nn.constant(batch[columns.VALUE_TARGETS])
            metrics["vf_loss"] = 0.5 * mean(nn.square(error))
            total = total + config.vf_loss_coeff * metrics["vf_loss"]
        return total, {**metrics, "total_loss": total}

    return loss
