"""The half of an algorithm that is about one policy: its module, its learner, and how it learns from fragments.

Of an algorithm with one policy, it is the algorithm itself. One with several makes one of these for each, of its own
class, with the settings, spaces and streams of that policy; all of them share counts and clocks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.spaces import Box

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.distributions.of_users import distribution_of
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.learners.learner import Learner, Loss, Metrics, Objective
from kernel_rllib.modules.custom import CustomModel, custom_model_of
from kernel_rllib.modules.module import Module
from kernel_rllib.nn import philox
from kernel_rllib.nn.backends import backend
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.training.exploration_by_class import ExplorationByClass
from kernel_rllib.training.exploration_of_users import exploration_of_draws
from kernel_rllib.training.exploring_for_reward import intrinsic_reward_of
from kernel_rllib.training.intrinsic_reward import IntrinsicReward
from kernel_rllib.training.models import framework_of, refuse_images
from kernel_rllib.training.parts import env_to_module_of, policy_blueprint_of
from kernel_rllib.training.progress import Progress, Timed
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.spaces import Spaces


class PolicyLearning:
    """Holds one policy with its learner, and trains it."""

    config: AlgorithmConfig
    action_kinds: ClassVar[tuple[str, ...]] = ("discrete", "continuous")
    """The kinds of actions for which the algorithm can learn a policy."""
    acts_on: ClassVar[frozenset[str]] = frozenset()
    """Settings that this algorithm acts on, of those that not all do; options of the model as `"model/use_lstm"`."""
    without: ClassVar[Mapping[str, str]] = {}
    """Settings that this algorithm does not act on, of those that others do, and why."""
    learns_from: ClassVar[tuple[str, ...]] = ()
    """Columns that it learns from beside observations, actions, rewards and ends: recorded experience needs them."""
    told: ClassVar[tuple[str, ...]] = ()
    """Numbers of infos that it learns with, as columns: of environments with one agent, nan where none is told."""
    intrinsic_rewards: ClassVar[frozenset[str]] = frozenset()
    """What it takes of rewards for what is new: see `training.exploring_for_reward`."""
    intrinsic_reward: IntrinsicReward | None = None
    """Rewards what is new, where the settings ask for it."""
    module_id: str = DEFAULT_POLICY_ID
    seed: int
    progress: Progress
    reports: Reports
    _iteration: int
    spaces: Spaces
    """The observation space and the action space of the policy."""
    distribution: Distribution
    train_rounds: ClassVar[bool] = False
    """Whether the policy learns from each round of samples at once. Otherwise a whole train batch is sampled first."""

    # -- what an algorithm of its own writes --------------------------------------------------------------------------

    @abstractmethod
    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the module that acts and learns.

        Args:
            observation: The shape of one row of observations, as connectors give it.
            distribution: The distribution of actions.
        """

    def make_custom_module(self, custom: CustomModel) -> Module:
        """Return a model of the user's own as the module that acts and learns: by default a policy with values."""
        return custom.policy_module()

    @abstractmethod
    def make_objectives(self) -> Mapping[str, Objective]:
        """Return what the learner makes small."""

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Learn from what was sampled for one training step, and return what the learner reports.

        An algorithm that writes it, in place of `training_step`, can have several policies.
        """
        raise NotImplementedError(f"{type(self).__name__} writes neither learn nor training_step: one is needed")

    def learn_from_fragments(self, fragments: Sequence[Fragment]) -> Metrics:
        """Add intrinsic rewards to what was sampled, where there are any, and `learn`; return what both report."""
        if self.intrinsic_reward is None:
            return self.learn(fragments)
        told = self.intrinsic_reward.add_to(fragments, self.env_steps_sampled)
        return {**self.learn(fragments), **told}

    def setup_learning(self) -> None:
        """Make the parts of learning beside the learner. Called once for each policy, when its learner is made."""

    def own_state(self) -> dict[str, Any]:
        """Return what this algorithm has to keep beside what all have, as `checkpoints.tree` takes it."""
        return {}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""

    def state_beside_learner(self) -> dict[str, Any]:
        """Return `own_state`, and what intrinsic rewards have to keep."""
        intrinsic = self.intrinsic_reward
        return {**self.own_state(), **({} if intrinsic is None else {"intrinsic_reward": intrinsic.state()})}

    def set_state_beside_learner(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state_beside_learner` returned; without intrinsic rewards in it, these begin anew."""
        self.set_own_state(state)
        if self.intrinsic_reward is not None and "intrinsic_reward" in state:
            self.intrinsic_reward.set_state(state["intrinsic_reward"])

    def make_distribution(self, action_space: Any) -> Distribution:
        """Return the distribution of actions of a space, as rows that are counted from 0."""
        return distribution_of(action_space, self.config.model.to_dict())

    def make_exploration(self) -> Exploration:
        """Return how actions are chosen while training: drawn from the policy, unless the settings say otherwise."""
        return exploration_of_draws(self.config.choice_of_actions, self.distribution)

    def settings_acted_on(self) -> frozenset[str]:
        """Return the settings that this algorithm acts on, or that may be as they are though it does not."""
        return self.acts_on

    # -- what it builds on --------------------------------------------------------------------------------------------

    def begin_learning(self, module_id: str, config: AlgorithmConfig, spaces: Spaces) -> None:
        """Make the learner of a policy. There are a seed, progress and reports already, those of the run.

        Args:
            module_id: The id of the policy, and of its module.
            config: The settings of the policy.
            spaces: The spaces of the policy's observations and actions.
        """
        self.module_id, self.config, self.spaces = module_id, config, spaces
        self.distribution = self.make_distribution(spaces.action)
        observation = env_to_module_of(config, spaces).shape
        refuse_images(config, self.acts_on, observation)
        module = self._own_module(observation) or self.make_module(observation, self.distribution)
        self.distribution = self.distribution.with_module(module)
        framework = framework_of(config, module, self.distribution)
        self.learner = Learner(module, backend(framework), self.make_objectives(), self.stream("parameters"))
        takes = self.intrinsic_rewards
        self.intrinsic_reward = intrinsic_reward_of(
            config, takes, observation, spaces, self.learner.backend, self.stream
        )
        self.setup_learning()

    def _own_module(self, observation: tuple[int, ...]) -> Module | None:
        """Return the module that settings name as the user's own, or None."""
        seed = int(self.stream("model").integers(2**31))
        outputs, spaces = self.distribution.parameter_size, self.spaces
        observed = spaces.observation
        if self.config.model.custom_preprocessor is not None:  # The model gets the preprocessor's results.
            observed = Box(-np.inf, np.inf, observation, np.float32)
        custom = custom_model_of(self.config, observed, spaces.action, observation, outputs, seed)
        return None if custom is None else self.make_custom_module(custom)

    def for_policy(self, module_id: str, config: AlgorithmConfig, spaces: Spaces) -> PolicyLearning:
        """Return one of the same class for one of several policies, which learns, and does not sample."""
        made = type(self).__new__(type(self))
        made.seed, made.progress, made.reports = self.seed, self.progress, self.reports
        made.begin_beside(self)
        made.begin_learning(module_id, config, spaces)
        return made

    def begin_beside(self, other: PolicyLearning) -> None:
        """Take over from another what policies must know of one another; called before there is a learner."""

    @property
    def learner(self) -> Learner:
        """The learner of the policy."""
        return self._learner

    @learner.setter
    def learner(self, learner: Learner) -> None:
        self._learner = learner

    def policy_blueprint(self, config: AlgorithmConfig, *, evaluates: bool = False) -> PolicyBlueprint:
        """Return the blueprint by which the policy acts, by settings of training or of evaluation."""
        exploration = self.make_exploration()
        if isinstance(exploration, ExplorationByClass):
            exploration = exploration.for_policy(self.distribution, self.spaces.action, self.config)
        if not config.explore:
            exploration = NoExploration(exploration, records=not evaluates)
        told = () if evaluates else self.told
        module = self.learner.module
        return policy_blueprint_of(config, self.spaces, module, exploration, learns=not evaluates, told=told)

    def stream(self, *purpose: int | str) -> np.random.Generator:
        """Return a generator of random numbers for a purpose: the same ones for the same seed, policy and purpose."""
        own = () if self.module_id == DEFAULT_POLICY_ID else (self.module_id,)
        return philox.stream(self.seed, *own, *purpose)

    def update(self, batch: Batch, only: Sequence[str] | None = None) -> Metrics:
        """Let the learner make one step for each objective, or for those in `only`, and count its rows."""
        self.env_steps_trained += batch.count
        told = self.reports.before_learning(self.learner, self.spaces, batch)
        return {**self.learner.update(batch, self.env_steps_sampled, only), **told}

    def objective(self, loss: Loss, trainable: tuple[str, ...] | None = None, *, lr: str = "lr") -> Objective:
        """Return an objective with the optimizer, learning rate and clipping that the settings say.

        Args:
            loss: The loss that is to be small.
            trainable: The beginnings of the names of the parameters that it changes; None for all.
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

    def timed(self, phase: str) -> Timed:
        """Return a context that counts its seconds as those of a phase of the iteration."""
        return Timed(self.progress.seconds, phase)

    @property
    def env_steps_sampled(self) -> int:
        """The number of steps that the environments have made."""
        return self.progress.env_steps_sampled

    @env_steps_sampled.setter
    def env_steps_sampled(self, steps: int) -> None:
        self.progress.env_steps_sampled = steps

    @property
    def env_steps_trained(self) -> int:
        """The number of rows that the learners were given."""
        return self.progress.env_steps_trained

    @env_steps_trained.setter
    def env_steps_trained(self, steps: int) -> None:
        self.progress.env_steps_trained = steps
