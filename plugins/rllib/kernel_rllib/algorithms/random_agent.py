"""An agent that does anything and never learns: the floor that others are measured against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.uniform import UniformActions
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.modules.module import Inputs, Module, Outputs, Parameter, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.policy_blueprint import ActionSettings, PolicyBlueprint
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import IMAGES, ONE_HEAD, ONE_PASS
from kernel_rllib.training.results import EpisodeWindow, ResultTree, merged

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_NOTHING = "it learns nothing"


class RandomAgentConfig(AlgorithmConfig):
    """The settings of RandomAgent."""

    algorithm = "RandomAgent"

    defaults = values(
        num_env_runners=Default(0, older={"0.8.5": 2}),
        rollout_fragment_length=Default(1, older={"0.8.5": 200}),
        batch_mode=Default("complete_episodes", older={"0.8.5": "truncate_episodes"}),
    )

    rollouts_per_iteration = Field(
        10, "How many episodes an iteration plays at least.", range=(1, None), unit="episodes"
    )

    @fluent()
    def training(  # type: ignore[override]
        self, *, rollouts_per_iteration: int = NOT_PROVIDED, **common: Unpack[TrainingArguments]
    ) -> Self:
        """Set how much RandomAgent plays; return this config."""
        return self


class NothingLearned(Module):
    """A module without parameters, and without outputs."""

    def parameters(self) -> Sequence[Parameter]:
        """Return no parameters."""
        return []

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return no outputs."""
        return {}


class RandomAgent(Algorithm):
    """Plays episodes by actions that are all alike, while it trains and while it is evaluated."""

    config: RandomAgentConfig
    config_class = RandomAgentConfig
    acts_on = IMAGES
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        **dict.fromkeys(
            ("gamma", "lr", "grad_clip", "grad_clip_by", "optimizer", "clip_rewards", "train_batch_size"), _NOTHING
        ),
        "num_epochs": _NOTHING,
        "train_batch_size_per_learner": _NOTHING,
        "metrics_num_episodes_for_smoothing": "the return is the mean of the episodes of an iteration",
        "explore": "all its actions are random",
        "exploration_config": "all its actions are random",
        "normalize_actions": "actions are drawn between the bounds of the environment",
        "clip_actions": "actions are drawn between the bounds of the environment",
        **dict.fromkeys(
            (
                "model/fcnet_hiddens",
                "model/fcnet_activation",
                "model/free_log_std",
                "model/conv_filters",
                "model/conv_activation",
            ),
            "it has no network",
        ),
    }
    _episodes_ended = 0

    def setup(self, config: dict[str, Any]) -> None:
        """Make the runners that play."""
        super().setup(config)
        if self.has_several_agents:
            raise ConfigError(
                f"{self.config.title}: it plays one agent, and the environment has several; give agents the policy "
                "RandomPolicy (kernel_rllib.first_generation.random_policy) beside another algorithm"
            )
        self.episodes = EpisodeWindow(1)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a module without anything."""
        return NothingLearned()

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return nothing."""
        return {}

    def make_exploration(self) -> Exploration:
        """Return that actions are all alike."""
        return UniformActions(self.spaces.action)

    def policy_blueprint(self, config: AlgorithmConfig, *, evaluates: bool = False) -> PolicyBlueprint:
        """Return the blueprint by which the policy acts, in training and in evaluation alike."""
        made = super().policy_blueprint(config, evaluates=evaluates)
        return replace(made, exploration=self.make_exploration(), actions=ActionSettings(unsquash=False, clip=False))

    def take_in(self, samples: Sequence[Sample]) -> None:
        """Count episodes, beside all else."""
        super().take_in(samples)
        self._episodes_ended += sum(len(sample.episodes) for sample in samples)

    def training_step(self) -> Metrics:
        """Play episodes."""
        before = self._episodes_ended
        while self._episodes_ended - before < self.config.rollouts_per_iteration:
            self.sample_all()
        return {}

    def _result(self, metrics: Metrics, began: float, sampled_before: int) -> ResultTree:
        """Return the result, with how many steps were made."""
        made = self.env_steps_sampled - sampled_before
        return merged(super()._result(metrics, began, sampled_before), {"timesteps_this_iter": made})
