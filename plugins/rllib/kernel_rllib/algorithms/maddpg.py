"""MADDPG: multi-agent deep deterministic policy gradient (Lowe et al. 2017, arXiv 1706.02275).

Each agent has a policy of its own, which sees what the agent sees. While it learns, a critic judges it that sees all
that agents see and do: so the world of the critic stands still though the policies of others change (section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from gymnasium import Space

from kernel_rllib.algorithms.exploration_by_noise import exploration_of_policy
from kernel_rllib.algorithms.maddpg_losses import (
    JUDGED_ACTIONS,
    JUDGED_OBS,
    UNIFORMS,
    JudgedActions,
    critic_loss,
    policy_loss,
)
from kernel_rllib.algorithms.off_policy import Pace
from kernel_rllib.algorithms.off_policy_actor_critic import refused_settings
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.learners.targets import TargetParameters
from kernel_rllib.modules.actor_q_critics import CRITICS, POLICY, HiddenLayers
from kernel_rllib.modules.catalog import activation_name
from kernel_rllib.modules.central_critic import AgentWithCentralCritic
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.joint_transitions import JointTransitions, column
from kernel_rllib.replay.replay import UniformReplay
from kernel_rllib.replay.transitions import DISCOUNTS
from kernel_rllib.spaces.action_rows import row_bounds
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS
from kernel_rllib.training.multi_agent import spaces_of_policy
from kernel_rllib.training.parts import env_to_module_of
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.results import mean_metrics
from kernel_rllib.training.spaces import Spaces

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

CriticKind = Literal["maddpg", "ddpg"]
_BY_POLICY = "use_local_critic in the settings of a policy says it"
_PRIORITIES = (
    "prioritized_replay",
    "prioritized_replay_alpha",
    "prioritized_replay_beta",
    "prioritized_replay_eps",
    "final_prioritized_replay_beta",
    "prioritized_replay_beta_annealing_timesteps",
    "worker_side_prioritization",
)
_NOISE = {"type": "GaussianNoise", "stddev": 0.1, "initial_scale": 1.0, "final_scale": 1.0}
"""The exploration of actions of a Box, where the settings name none."""


class MADDPGConfig(OffPolicyConfig):
    """The settings of MADDPG. Each agent is mapped to a policy of its own, whose settings may be others."""

    algorithm = "MADDPG"

    defaults = values(
        num_env_runners=Default(0, older={"1.x": 1}),
        min_time_s_per_iteration=Default(None, older={"1.x": 0}),
        min_sample_timesteps_per_iteration=Default(1000, older={"1.x": 0}),
        train_batch_size=1024,
        rollout_fragment_length=Default("auto", older={"1.x": 100}),
        training_intensity=Default(10.24, older={"1.x": None}),
        tau=0.01,
        target_network_update_freq=0,
        num_steps_sampled_before_learning_starts=25_600,
        replay_buffer_config=values(capacity=1_000_000),
        grad_clip=0.5,
        compress_observations=False,
    )
    in_all_dicts: ClassVar[tuple[str, ...]] = ("grad_clip",)
    less_in_0_8_5 = _PRIORITIES
    rows = (Name("grad_clip", "grad_norm_clipping", "grad_clip"),)

    agent_id = Field[int | None](
        None, "The number of the agent that a policy is for.", inert="policies are told apart by their ids"
    )
    use_local_critic = Field(False, "Whether a policy's critic sees no more than the policy (DDPG).")
    use_state_preprocessor = Field(False, "Whether the networks of `model` come before the others.")
    actor_hiddens = Field[list[int]]([64, 64], "Sizes of the policy's dense layers.", range=(1, None))
    actor_hidden_activation = Field[Activation]("relu", "What follows each of them.")
    critic_hiddens = Field[list[int]]([64, 64], "Sizes of the critic's dense layers.", range=(1, None))
    critic_hidden_activation = Field[Activation]("relu", "What follows each of them.")
    good_policy = Field[CriticKind]("maddpg", "What learns for agents that are no adversaries.", inert=_BY_POLICY)
    adv_policy = Field[CriticKind]("maddpg", "What learns for adversaries.", inert=_BY_POLICY)
    actor_lr = Field[float | Schedule](1e-2, "The policy's learning rate.", range=(0, None))
    critic_lr = Field[float | Schedule](1e-2, "The critic's learning rate.", range=(0, None))
    actor_feature_reg = Field(0.001, "The weight of the squares of what the policy gives.", range=(0, None))

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        agent_id: int | None = NOT_PROVIDED,
        use_local_critic: bool = NOT_PROVIDED,
        use_state_preprocessor: bool = NOT_PROVIDED,
        actor_hiddens: list[int] = NOT_PROVIDED,
        actor_hidden_activation: Activation = NOT_PROVIDED,
        critic_hiddens: list[int] = NOT_PROVIDED,
        critic_hidden_activation: Activation = NOT_PROVIDED,
        good_policy: CriticKind = NOT_PROVIDED,
        adv_policy: CriticKind = NOT_PROVIDED,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        actor_feature_reg: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how MADDPG learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from refused_settings(self)
        buffer = self.replay_buffer_config
        if buffer.type != UNIFORM or buffer.worker_side_prioritization or buffer.replay_sequence_length is not None:
            yield (
                "replay_buffer_config asks for more than its capacity, but steps of all agents are replayed together, "
                "each with the same chance; leave out all but capacity"
            )
        if not isinstance(self.n_step, int):
            yield f"n_step={self.n_step} is drawn for each agent, but agents are replayed together; give one number"
        if self.use_state_preprocessor:
            yield (
                "use_state_preprocessor=True puts the networks of `model` before those of policy and critic; leave it "
                "out, and give their layers to actor_hiddens and critic_hiddens"
            )


class MADDPG(Algorithm):
    """Learns a policy for each agent, from replayed steps of all, by a critic that sees all."""

    config: MADDPGConfig
    config_class = MADDPGConfig
    train_rounds = True
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "model/fcnet_hiddens": "give the layers to actor_hiddens and critic_hiddens",
        "model/fcnet_activation": "give it to actor_hidden_activation and critic_hidden_activation",
        "model/free_log_std": "its policies give actions, not deviations",
    }
    team: Mapping[str, Spaces]
    """The spaces of all policies that learn, by their ids, in the order in which critics take what they see and do."""

    @property
    def learns_several(self) -> bool:
        """Whether the algorithm can train several policies: always."""
        return True

    # -- building -----------------------------------------------------------------------------------------------------

    def setup(self, config: dict[str, Any]) -> None:
        """Make the replay that all policies learn from together."""
        super().setup(config)
        gammas = {policy_id: policy.config.gamma for policy_id, policy in self.policies.items()}
        assert isinstance(self.config.n_step, int)
        self.transitions = JointTransitions(list(self.policies), n=self.config.n_step, gamma=gammas)
        self.replay = UniformReplay(self.config.replay_buffer_config.capacity)
        self.pace = Pace(self.learning_intensity())
        self.draws = self.stream("replay")
        self.steps_at_last_target = 0
        self.last_metrics: dict[str, Metrics] = {}

    def learning_intensity(self) -> float:
        """Return how many steps are learned from for each one sampled: as the settings say, or a batch a round."""
        if self.config.training_intensity is not None:
            return float(self.config.training_intensity)
        return self.config.train_batch_size / (self.config.get_rollout_fragment_length() * self.config.total_envs)

    def begin_policies(self, specs: Mapping[str, PolicySpec]) -> None:
        """Make the policies that learn, where there are several agents."""
        scripted = {name for name, spec in self.config.policies.items() if spec.policy_class is not None}
        self.team = {name: spaces_of_policy(spec) for name, spec in specs.items() if name not in scripted}
        super().begin_policies(specs)

    def begin_beside(self, other: PolicyLearning) -> None:
        """Know the spaces of all policies."""
        assert isinstance(other, MADDPG)
        self.team = other.team

    def take_policies_of(self, config: AlgorithmConfig) -> None:
        """Refuse other policies. Raises ConfigError."""
        raise ConfigError(
            f"{self.config.title}: critics take what all agents see and do, so policies can't come and go while "
            "training; build a new algorithm with all of them"
        )

    def make_distribution(self, action_space: Space[Any]) -> Distribution:
        """Return the distribution of actions as runners draw them."""
        self.actions = JudgedActions(action_space, normalised=self.config.normalize_actions)
        if self.actions.is_discrete:
            return super().make_distribution(action_space)
        return self.actions.distribution

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> AgentWithCentralCritic:
        """Return a policy, and a critic of all that agents see and do, or of what this one does."""
        config = self.config
        team = {} if config.use_local_critic else getattr(self, "team", {})
        judged = {self.module_id: self.spaces, **team}
        self.judged = [name for name in (getattr(self, "team", None) or judged) if name in judged]
        widths = {name: int(env_to_module_of(config, each).shape[0]) for name, each in judged.items()}
        normalised = config.normalize_actions
        actions = {name: JudgedActions(each.action, normalised=normalised).width for name, each in judged.items()}
        self.before = sum(actions[name] for name in self.judged[: self.judged.index(self.module_id)])
        return AgentWithCentralCritic(
            observation[0],
            distribution.parameter_size,
            judged_observations=sum(widths.values()),
            judged_actions=sum(actions.values()),
            policy=HiddenLayers(tuple(config.actor_hiddens), activation_name(config.actor_hidden_activation)),
            critic=HiddenLayers(tuple(config.critic_hiddens), activation_name(config.critic_hidden_activation)),
        )

    def make_exploration(self) -> Exploration:
        """Return draws of discrete actions, or noise on others, unless the settings say otherwise."""
        given = self.config.exploration_config
        if self.actions.is_discrete:
            exploration = exploration_of_policy(given, self.distribution, None)
        else:
            settings = given if self.config.is_set("exploration_config") else _NOISE
            exploration = exploration_of_policy(settings, self.distribution, row_bounds(self.actions.learned))
        return exploration if self.config.explore else NoExploration(exploration)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return those of critic and policy, each over its own parameters, at its own rate."""
        policy = policy_loss(self.actions, self.before, self.config.actor_feature_reg)
        return {
            "critic": self.objective(critic_loss, (CRITICS,), lr="critic_lr"),
            "policy": self.objective(policy, (POLICY,), lr="actor_lr"),
        }

    def setup_learning(self) -> None:
        """Make the slower copy of a policy and its critic."""
        self.module: Any = self.learner.module
        self.target = TargetParameters(self.learner.vector, self.learner.backend)

    # -- an iteration -------------------------------------------------------------------------------------------------

    def learn_policies(self, chosen: Sequence[str], fragments: Mapping[str, Sequence[Fragment]]) -> dict[str, Metrics]:
        """Keep what all did, and let the chosen policies learn from it as often as the settings say."""
        for at in range(max(map(len, fragments.values()))):
            joint = self.transitions.of({name: each[at] for name, each in fragments.items() if at < len(each)})
            if joint.count:
                self.replay.add(joint)
        self.transitions.require_steps_of_all(fragments, self.progress.env_steps_new)
        if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts or not len(self.replay):
            return {}
        due = self.pace.updates(self.progress.env_steps_new, self.config.train_batch_size)
        if due:
            found = [self.learn_once(chosen) for _ in range(due)]
            self.last_metrics = {name: mean_metrics([each[name] for each in found]) for name in chosen}
        return self.last_metrics

    def learn_once(self, chosen: Sequence[str]) -> dict[str, Metrics]:
        """Let policies make a step with one minibatch, and then let the slower copies of all follow, if it is time."""
        batch = self.replay.sample(self.config.train_batch_size, self.draws, self.env_steps_sampled)
        team: dict[str, MADDPG] = dict(self.policies)  # type: ignore[arg-type]
        places = {name: place for place, name in enumerate(team)}
        done = {name: each.actions.rows(batch[column(columns.ACTIONS, places[name])]) for name, each in team.items()}
        then = {name: each.target_actions(batch[column(columns.NEXT_OBS, places[name])]) for name, each in team.items()}
        found = {}
        for name in chosen:
            own = team[name]
            uniforms = self.draws.random((batch.count, own.actions.width), np.float32)
            part = own.judged_part(batch, places, done, then)
            found[name] = own.learn_from(part, uniforms)
        if self.env_steps_sampled - self.steps_at_last_target >= self.config.target_network_update_freq:
            self.steps_at_last_target = self.env_steps_sampled
            for each in team.values():
                each.target.follow(each.learner.vector, each.config.tau)
        return found

    # -- one policy ---------------------------------------------------------------------------------------------------

    def judged_part(
        self, batch: Batch, places: Mapping[str, int], done: Mapping[str, Array], then: Mapping[str, Array]
    ) -> Batch:
        """Return what this policy learns from of a minibatch of all.

        Args:
            batch: Joint rows.
            places: The place of each agent in joint rows, by the agent's id.
            done: The action of each agent, as critics take it [N, A], by the agent's id.
            then: The next action of each agent by its slower copy [N, A], by the agent's id.
        """

        def side_by_side(name: str) -> Array:
            return np.concatenate([batch[column(name, places[each])] for each in self.judged], axis=1)

        place = places[self.module_id]
        after, next_actions = side_by_side(columns.NEXT_OBS), np.concatenate([then[name] for name in self.judged], 1)
        rewards, discounts = batch[column(columns.REWARDS, place)], batch[column(DISCOUNTS, place)]
        return Batch(
            {
                columns.OBS: batch[column(columns.OBS, place)],
                JUDGED_OBS: side_by_side(columns.OBS),
                JUDGED_ACTIONS: np.concatenate([done[name] for name in self.judged], axis=1),
                columns.VALUE_TARGETS: rewards + discounts * self.target_values(after, next_actions),
            }
        )

    def learn_from(self, batch: Batch, uniforms: Array) -> Metrics:
        """Let the critic make a step, and then the policy, whose actions are drawn by uniform numbers [N, width]."""
        batch[UNIFORMS] = uniforms
        return {**self.update(batch, ("critic",)), **self.learner.update(batch, self.env_steps_sampled, ("policy",))}

    def target_actions(self, obs: Array) -> Array:
        """Return what the slower copy of the policy thinks best [N, width]: mu' of equation 6."""

        def best(nn: Ops, parameters: Parameters) -> Any:
            given = self.module.train(nn, parameters, {columns.OBS: obs})[columns.ACTION_DIST_INPUTS]
            return self.actions.best(nn, given)

        found: Array = self.learner.backend.to_numpy(self.learner.evaluate(best, self.target.vector))
        return found

    def target_values(self, obs: Array, actions: Array) -> Array:
        """Return Q'(x', a'_1 .. a'_N) [N] of the slower copy: equation 6."""
        found: Array = self.learner.backend.to_numpy(
            self.learner.evaluate(
                lambda nn, p: self.module.q_values(nn, p, obs, nn.constant(actions)), self.target.vector
            )
        )
        return found

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the slower copy of a policy."""
        return {"target": self.learner.backend.to_numpy(self.target.vector).copy()}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.target.vector[...] = self.learner.backend.vector(state["target"])

    def shared_state(self) -> dict[str, Any]:
        """Return how far learning together is; the steps that are kept too, where settings say so."""
        state = {
            "steps_at_last_target": self.steps_at_last_target,
            "owed": self.pace.owed,
            "draws": self.draws.bit_generator.state,
            "transitions": self.transitions.state(),
        }
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = dict(self.replay.state())
        return state

    def set_shared_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `shared_state` returned."""
        self.steps_at_last_target = int(state["steps_at_last_target"])
        self.pace.owed = float(state["owed"])
        self.draws.bit_generator.state = state["draws"]
        self.transitions.set_state(state["transitions"])
        if "replay" in state:
            self.replay.set_state(state["replay"])
