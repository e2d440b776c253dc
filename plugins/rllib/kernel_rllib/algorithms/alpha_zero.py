"""AlphaZero (Silver et al. 2017, arXiv:1712.01815): a search by a network, and the network learns what it found.

It plays alone, where returns are ranked against those before (R2, Laterre et al. 2018, arXiv:1807.01672), or as both
players of a game with turns. Environments have `get_state()` and `set_state(state)`, and observe a Dict of `obs` and
`action_mask`. In a game of two, `num_players` of the environment is 2; observations, values and rewards are from the
view of who acts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.masked_layout import masked_layout
from kernel_rllib.algorithms.off_policy import replay_of
from kernel_rllib.algorithms.ranked_rewards import RankedRewards, random_returns
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.parts import Part
from kernel_rllib.config.replay_config import ReplayBufferConfig
from kernel_rllib.config.search_config import MctsConfig, RankedRewardsConfig
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, concatenated
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.exploration.tree_policy import TREE_POLICIES, TreePolicySampling
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.modules.catalog import actor_critic_options
from kernel_rllib.modules.masked_actor_critic import THRESHOLD, MaskedActorCritic
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.game_outcomes import episode_numbers, rewards_to_go
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.multi_agent_blueprint import MultiAgentBlueprint
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint
from kernel_rllib.runners.searching_sampler import SearchingBlueprint
from kernel_rllib.search.searching import SearchSettings
from kernel_rllib.search.simulation import players_of
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import HEADS, IMAGES
from kernel_rllib.training.parts import env_maker_of
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_AS_OBSERVED = "a search sees what the environment observes"
_OF_OUTCOMES = "what is learned is how episodes end, and there is no discount on the way"


class AlphaZeroConfig(AlgorithmConfig):
    """The settings of AlphaZero."""

    algorithm = "AlphaZero"

    defaults = values(
        lr=5e-5,
        num_env_runners=2,
        rollout_fragment_length=200,
        train_batch_size=4000,
        minibatch_size=128,
        num_epochs=30,
        shuffle_batch_per_epoch=True,
        batch_mode="complete_episodes",
        observation_filter="NoFilter",
        evaluation_config=values(mcts_config=values(argmax_tree_policy=True, add_dirichlet_noise=False)),
        replay_buffer_config=Default(values(capacity=200_000), older={"1.x": values(capacity=10_000)}),
        simple_optimizer=Default(False, older={"1.x": True}),
        model=values(vf_share_layers=False),
    )
    in_all_dicts = ("num_epochs", "minibatch_size", "shuffle_batch_per_epoch")
    more_in_0_8_5 = values(lr_schedule=None)
    less_in_0_8_5 = (
        "worker_side_prioritization",
        "prioritized_replay",
        "prioritized_replay_alpha",
        "prioritized_replay_beta",
        "prioritized_replay_eps",
        "final_prioritized_replay_beta",
        "prioritized_replay_beta_annealing_timesteps",
    )
    rows = (Name("model/vf_share_layers", "vf_share_layers", "-", wins=True),)

    mcts_config = Part(MctsConfig, "How trees are grown, and how actions are chosen by them.")
    ranked_rewards = Part(RankedRewardsConfig, "How returns of one who plays alone become 1 or -1.")
    replay_buffer_config = Part(
        ReplayBufferConfig, "The steps that are kept, of which train batches are drawn.", since="2.x"
    )
    num_steps_sampled_before_learning_starts = Field(
        1000, "Steps that are sampled before anything is learned.", range=(0, None), unit="env steps"
    )
    store_buffer_in_checkpoints = Field(False, "Whether checkpoints have the buffer's content.", since="1.x")
    simple_optimizer = Field(
        False, "Whether each train batch is sampled anew, and nothing is drawn of what was kept.", until="2.x"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        mcts_config: dict[str, Any] | MctsConfig = NOT_PROVIDED,
        ranked_rewards: dict[str, Any] | RankedRewardsConfig = NOT_PROVIDED,
        replay_buffer_config: dict[str, Any] | ReplayBufferConfig = NOT_PROVIDED,
        num_steps_sampled_before_learning_starts: int = NOT_PROVIDED,
        store_buffer_in_checkpoints: bool = NOT_PROVIDED,
        simple_optimizer: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how AlphaZero searches and learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.batch_mode != "complete_episodes":
            yield (
                f"batch_mode={self.batch_mode!r} cuts episodes, and steps are worth what their episode ends with; set "
                "it to 'complete_episodes'"
            )
        if self.replay_buffer_config.is_prioritized:
            yield (
                "replay_buffer_config type is prioritised, but there are no errors that priorities could be made of; "
                "set it to 'EpisodeReplayBuffer'"
            )

    def search_settings(self, players: int) -> SearchSettings:
        """Return the settings of searches in games of so many players."""
        given = self.mcts_config
        return SearchSettings(
            simulations=given.num_simulations,
            exploration=given.puct_coefficient,
            exponent=given.temperature,
            noise_share=given.dirichlet_epsilon if given.add_dirichlet_noise else 0.0,
            concentration=given.dirichlet_noise,
            players=players,
        )


class AlphaZero(Algorithm):
    """Plays by searches, and learns their policies and how episodes end."""

    config: AlphaZeroConfig
    config_class = AlphaZeroConfig
    action_kinds = ("discrete",)
    acts_on = HEADS | IMAGES
    without: ClassVar[Mapping[str, str]] = {
        "gamma": _OF_OUTCOMES,
        "clip_rewards": _OF_OUTCOMES,
        "exploration_config": "actions are chosen by trees, as mcts_config says",
        "horizon": "a search does not see it; let the environment end episodes",
        "no_done_at_end": "a search does not see it; let the environment end episodes",
        "env_to_module_connector": _AS_OBSERVED,
        "observation_filter": _AS_OBSERVED,
        "input_": "it learns from its own searches",
        "model/free_log_std": "its actions are discrete",
    }
    players = 1
    """How many take turns in the environment: 1 or 2."""

    @property
    def train_rounds(self) -> bool:  # type: ignore[override]
        """Whether each round of samples is kept, and learned from; otherwise whole train batches are sampled."""
        return not self.config.simple_optimizer

    @property
    def ranks(self) -> bool:
        """Whether returns are ranked."""
        return bool(self.config.ranked_rewards.enable) and self.players == 1

    # -- parts --------------------------------------------------------------------------------------------------------

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return the network that searches ask. Raises ConfigError for environments that no tree can be grown in."""
        if self.has_several_agents:
            raise ConfigError(
                f"{self.config.title}: it learns one policy, and the environment has several agents: for two who take "
                "turns, let the environment have one agent, who is the player that acts, and num_players = 2"
            )
        self.layout = masked_layout(self.config, self.spaces.observation, self.spaces.action)
        if self.config.model.use_lstm or self.config.model.use_attention:
            raise ConfigError(
                f"{self.config.title}: a search has no memory; set use_lstm and use_attention to False, and let the "
                "environment observe all that counts"
            )
        return MaskedActorCritic(self.layout, actor_critic_options(self.config.model))

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss of the network."""
        return {"alpha_zero": self.objective(alpha_zero_loss, trainable=("policy", "value", "shared"))}

    def make_exploration(self) -> Exploration:
        """Return that actions are chosen by trees."""
        return TreePolicySampling(self.layout.mask[1] - self.layout.mask[0], greedy=self._greedy)

    def setup_learning(self) -> None:
        """Look at the environment, make the buffer, and rank the returns of random actions."""
        self.replay = replay_of(self.config.replay_buffer_config)
        self.draws = self.stream("replay")
        env = env_maker_of(self.config)(EnvContext(self.config.env_config))
        try:
            self.players = players_of(env)
        except EnvError as error:
            raise ConfigError(f"{self.config.title}: {error}") from error
        given = self.config.ranked_rewards
        self.ranked = RankedRewards(given.percentile, given.buffer_max_length)
        if self.ranks and given.initialize_buffer:
            self.ranked.keep(random_returns(env, given.num_init_rewards, self.stream("ranked rewards")))
        if hasattr(env, "close"):
            env.close()
        self._hand_over()

    def policy_blueprint(self, config: AlgorithmConfig, *, evaluates: bool = False) -> PolicyBlueprint:
        """Return the blueprint by which the policy acts; evaluations may search otherwise."""
        assert isinstance(config, AlphaZeroConfig)
        self._greedy = config.mcts_config.argmax_tree_policy
        return super().policy_blueprint(config, evaluates=evaluates)

    def make_blueprint(
        self, config: AlgorithmConfig, seed: int, *, evaluates: bool = False
    ) -> Blueprint | MultiAgentBlueprint:
        """Return the blueprint of lanes that search."""
        made = super().make_blueprint(config, seed, evaluates=evaluates)
        assert isinstance(config, AlphaZeroConfig)
        if not isinstance(made, Blueprint):
            return made
        return SearchingBlueprint.of(made, config.search_settings(self.players), self.ranks)

    # -- learning -----------------------------------------------------------------------------------------------------

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled, and make `num_epochs` passes over a train batch of it."""
        found = concatenated([self._worth(fragment) for fragment in fragments])
        assert isinstance(found, Batch)
        if self.train_rounds:
            if found.count:
                self.replay.add(found)
            if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts or not len(self.replay):
                self._hand_over()
                return {}
            found = self.replay.sample(self.config.total_train_batch_size, self.draws, self.env_steps_sampled)
        stream = self.stream("minibatches", self.iteration, self.learner.version)
        size = min(self.config.minibatch_size or found.count, found.count)
        parts = found.minibatches(
            size, stream, epochs=self.config.num_epochs, shuffle=self.config.shuffle_batch_per_epoch
        )
        metrics = mean_metrics([self.update(minibatch) for minibatch in parts])
        self._hand_over()
        return {**metrics, **({"ranked_rewards_threshold": self.ranked.threshold} if self.ranks else {})}

    def _worth(self, fragment: Fragment) -> Batch:
        """Return the steps of whole episodes with what they turned out to be worth, `value_targets`."""
        rewards = fragment.columns[columns.REWARDS]
        ends = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
        numbers = episode_numbers(ends, fragment.valid)
        if self.ranks:
            worth = np.zeros(rewards.shape)
            for number in range(int(numbers.max()) + 1):
                own = numbers == number
                worth[own] = self.ranked.rank(float(rewards[own].astype(np.float64).sum()))
        else:
            worth = rewards_to_go(rewards, ends, players=self.players)
        whole = numbers >= 0
        return Batch({
            columns.OBS: fragment.columns[columns.OBS][whole],
            TREE_POLICIES: fragment.columns[TREE_POLICIES][whole],
            columns.VALUE_TARGETS: worth[whole].astype(np.float32),
        })  # fmt: skip

    def own_state(self) -> dict[str, Any]:
        """Return the returns that are ranked, and how far draws are; the buffer too, where settings say so."""
        state = {"ranked": self.ranked.state(), "draws": self.draws.bit_generator.state}
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = dict(self.replay.state())
        return state

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.ranked.set_state(state["ranked"])
        self.draws.bit_generator.state = state["draws"]
        if "replay" in state:
            self.replay.set_state(state["replay"])

    # -- inside -------------------------------------------------------------------------------------------------------

    _greedy = False

    def _hand_over(self) -> None:
        """Write from which return on episodes are worth 1 into the parameters that runners act with."""
        view = self.learner.module.table.views(self.learner.vector)[THRESHOLD]
        view[...] = max(self.ranked.threshold, float(np.finfo(np.float32).min))
        self.learner.version += 1


def alpha_zero_loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, dict[str, Any]]:
    """Return ((z - v)^2 - pi log p) / 2, as a mean (equation 1, without its penalty, and halved as RLlib has it).

    z is what a step turned out to be worth, pi the policy of its tree.
    """
    outputs = module.train(nn, parameters, batch)
    logs = nn.log_softmax(outputs[columns.ACTION_DIST_INPUTS])
    policy_loss = -nn.mean(nn.sum(nn.constant(batch[TREE_POLICIES]) * logs, axis=1))
    errors = nn.square(outputs[columns.VF_PREDS] - nn.constant(batch[columns.VALUE_TARGETS]))
    value_loss = nn.mean(errors)
    total = (policy_loss + value_loss) * 0.5
    return total, {"total_loss": total, "policy_loss": policy_loss, "vf_loss": value_loss}
