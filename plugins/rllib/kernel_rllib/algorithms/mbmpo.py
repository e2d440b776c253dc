"""Model-based meta-policy optimisation (Clavera et al., 2018, arXiv 1809.05214).

Each model of an ensemble is a task of MAML: a policy is learned that a step of policy gradient adapts to any of them.
So it relies on nothing that models don't agree about. An iteration samples a little of the environment by policies that
are adapted to the models, fits the models to all transitions so far, and makes `num_maml_steps` rounds of MAML in
episodes that the models imagine. What a transition earns is known: `env.reward(obs, action, obs_next)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from gymnasium.spaces import Box, Discrete

from kernel_rllib.algorithms.imagination import Imagination, RewardFunction
from kernel_rllib.algorithms.maml import MAML, MAMLConfig
from kernel_rllib.algorithms.task_rounds import TaskRounds
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.dynamics import Dynamics, DynamicsSettings
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.task_sampler import TaskBlueprint
from kernel_rllib.training.honoured import HEADS, ONE_PASS, OWN_DISTRIBUTIONS
from kernel_rllib.training.parts import env_maker_of
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

TRANSITIONS = (columns.OBS, columns.ACTIONS, columns.NEXT_OBS)
_IN_RLLIB = ("custom_model", "custom_model_config")
"""Keys of `dynamics_model` in RLlib, which are to be None or empty."""


class MBMPOConfig(MAMLConfig):
    """The settings of MBMPO."""

    algorithm = "MBMPO"

    defaults = values(
        horizon=Default(200, older={"1.x": 200}),
        clip_param=0.5,
        inner_lr=1e-3,
        maml_optimizer_steps=8,
        use_meta_env=False,
        create_env_on_local_worker=True,
    )

    num_maml_steps = Field(10, "How many rounds of MAML follow each fit of the models.", range=(1, None))
    dynamics_model = Field[dict[str, Any]](
        {}, "Options of the ensemble: fcnet_hiddens, lr, train_epochs, batch_size, valid_split_ratio, and so on."
    )
    imagined_episodes = Field(
        20, "How many episodes each model imagines at a time.", range=(1, None), unit="episodes", since="current"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        num_maml_steps: int = NOT_PROVIDED,
        dynamics_model: dict[str, Any] = NOT_PROVIDED,
        imagined_episodes: int = NOT_PROVIDED,
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
        """Set how MBMPO learns; return this config."""
        return self

    @property
    def tasks_at_once(self) -> int:
        """The number of groups of environments: each acts by a policy of its own."""
        return self.total_envs

    @property
    def dynamics(self) -> DynamicsSettings:
        """The settings of the ensemble."""
        given = {name: value for name, value in self.dynamics_model.items() if name not in _IN_RLLIB}
        hidden = tuple(given.get("fcnet_hiddens", DynamicsSettings.fcnet_hiddens))
        return DynamicsSettings(**{**given, "fcnet_hiddens": hidden})

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        known = [each.name for each in fields(DynamicsSettings)]
        for name in self.dynamics_model:
            if name not in (*known, *_IN_RLLIB):
                yield f"dynamics_model sets {name!r}, which is no option{did_you_mean(name, known)}"
        if self.dynamics_model.get("custom_model"):
            yield "dynamics_model has a custom_model, and the ensemble is dense networks here; leave it out"
        if not self.horizon and not self.in_evaluation:
            yield "horizon=None leaves imagined episodes without an end; set it to a number of steps"
        if self.observation_filter not in (None, "NoFilter"):
            yield (
                f"observation_filter={self.observation_filter!r} would scale what models see, who do that themselves; "
                "set it to 'NoFilter'"
            )


class MBMPO(MAML):
    """Trains a policy in what an ensemble of models imagines."""

    config: MBMPOConfig
    config_class = MBMPOConfig
    acts_on = HEADS | OWN_DISTRIBUTIONS
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        "input_": "it samples by policies that are adapted to its models",
        "train_batch_size": "an iteration has episodes of rollout_fragment_length steps of each environment",
        "use_meta_env": "its tasks are the models",
        "meta_batch_size": "its tasks are the models: set ensemble_size of dynamics_model",
        "env_task_fn": "its models learn one environment",
    }

    def setup_learning(self) -> None:
        """Make the models, and look whether the environment tells rewards."""
        super().setup_learning()
        observed, actions = self.spaces.observation, self.spaces.action
        if not isinstance(observed, Box) or len(observed.shape) != 1 or not isinstance(actions, (Box, Discrete)):
            raise ConfigError(
                f"{self.config.title} has models of observations that are a Box of one axis, with actions that are a "
                f"Box or Discrete; the environment has {observed} and {actions}"
            )
        width = int(actions.n) if isinstance(actions, Discrete) else int(np.prod(actions.shape))
        settings, backend = self.config.dynamics, self.learner.backend
        self.dynamics = Dynamics(settings, observed.shape[0], width, backend, self.stream("dynamics"))
        self.transitions = {
            name: np.zeros((0, width if name == columns.ACTIONS else observed.shape[0]), np.float32)
            for name in TRANSITIONS
        }
        self.starts = np.zeros((0, observed.shape[0]), np.float32)
        """What was observed where episodes began [N, S]: imagined ones begin there."""

    def setup(self, config: dict[str, Any]) -> None:
        """Make the runners, and what imagines."""
        super().setup(config)
        reward = RewardFunction(env_maker_of(self.config), self.config.env_config)
        blueprint = cast(Blueprint, self.blueprint)
        self.imagination = Imagination(
            self.dynamics,
            reward,
            self.distribution,
            blueprint.make_module_to_env(),
            self.spaces,
            clip_rewards=blueprint.clip_rewards,
        )

    def make_blueprint(
        self, config: AlgorithmConfig, seed: int, *, evaluates: bool = False
    ) -> Blueprint | MultiAgentBlueprint:
        """Return the blueprint of the runners' samplers: each environment acts by a policy of its own."""
        made = super().make_blueprint(config, seed, evaluates=evaluates)
        return TaskBlueprint.of(made, 1) if isinstance(made, TaskBlueprint) else made

    # -- an iteration -------------------------------------------------------------------------------------------------

    def training_step(self) -> Metrics:
        """Sample the environment, fit the models, and learn in what they imagine (algorithm 1 of the paper)."""
        with self.timed("sample"):
            self._sample(self.rounds)
        with self.timed("learn"):
            fitted = self.dynamics.fit(self.transitions, self.stream("fit", self.learner.version))
            metrics = mean_metrics([self._maml_step() for _ in range(self.config.num_maml_steps)])
        self.broadcast()
        return {**metrics, **fitted}

    def _sample(self, rounds: TaskRounds) -> None:
        """Sample, each environment by the policy that is adapted to a model in turn; keep the transitions."""
        vectors = [self.learner.weights.copy()]
        if self.dynamics.scale is not None:
            vectors = self._imagined(self.config.inner_adaptation_steps, "act")[1]
        first = self.env_steps_sampled
        chosen = [vectors[(first + lane) % len(vectors)] for lane in range(rounds.tasks)]
        samples, fragments = rounds.sample(chosen, self.config.get_rollout_fragment_length())
        self.take_in(samples)
        for fragment in fragments:
            self._keep(fragment)

    def _keep(self, fragment: Fragment) -> None:
        batch = fragment.batch()
        valid = np.ones(fragment.shape, bool) if fragment.valid is None else fragment.valid
        following = fragment.next_obs()[valid]
        # The blueprint's connectors give environments what models see: clipped, and at the scale of the space.
        made = {columns.OBS: batch[columns.OBS], columns.NEXT_OBS: following}
        made[columns.ACTIONS] = self.imagination.seen_actions(batch[columns.ACTIONS])
        for name, column in made.items():
            self.transitions[name] = np.concatenate([self.transitions[name], column]).astype(np.float32)
        self.starts = np.concatenate([self.starts, fragment.columns[columns.OBS][0]]).astype(np.float32)

    def _maml_step(self) -> Metrics:
        """Make the steps of the optimizer for one round of imagined episodes."""
        steps = self.config.inner_adaptation_steps
        batches, _, returns = self._imagined(steps, "learn")
        metrics = mean_metrics([self._step(batches) for _ in range(self.config.maml_optimizer_steps)])
        return {**metrics, "imagined_return": returns[0], "imagined_return_adapted": returns[-1]}

    def _imagined(self, steps: int, purpose: str) -> tuple[list[list[Batch]], list[Array], list[float]]:
        """Adapt a policy to each model, in what it imagines.

        Args:
            steps: The steps of adaptation.
            purpose: `"learn"`, where adapted policies play too; `"act"`, where they are only made.

        Returns:
            The batches [rounds][models], the adapted parameters of each model [size], and the mean returns of rounds.
        """
        config, models = self.config, self.dynamics.settings.ensemble_size
        assert config.horizon is not None
        vectors = [self.learner.weights.copy()] * models
        batches: list[list[Batch]] = []
        returns: list[float] = []
        rounds = steps + 1 if purpose == "learn" else steps
        for number in range(rounds):
            stream = self.stream("imagine", purpose, self.learner.version, number)
            starts = self.starts[stream.integers(len(self.starts), size=(models, config.imagined_episodes))]
            fragments = self.imagination.play(self.learner, vectors, starts, config.horizon, stream)
            returns.append(float(np.mean([each.columns[columns.REWARDS].sum(axis=0).mean() for each in fragments])))
            batches.append([self.task_learning.experience(*each) for each in zip(vectors, fragments, strict=True)])
            if number < steps:
                vectors = [self.task_learning.adapted(*each) for each in zip(vectors, batches[-1], strict=True)]
        return batches, vectors, returns

    # -- state --------------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the models, and what they learn from."""
        kept = {"dynamics": self.dynamics.state(), "transitions": dict(self.transitions), "starts": self.starts}
        return {**super().own_state(), **kept}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        self.dynamics.set_state(state["dynamics"])
        self.transitions = {name: np.array(state["transitions"][name], np.float32) for name in TRANSITIONS}
        self.starts = np.array(state["starts"], np.float32)

    def cleanup(self) -> None:
        """End the runners, and let go of the environments."""
        self.imagination.reward.close()
        super().cleanup()
