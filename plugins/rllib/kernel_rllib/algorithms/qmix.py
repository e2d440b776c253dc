"""QMIX (Rashid et al. 2018, arXiv 1803.11485), and VDN (Sunehag et al. 2017, arXiv 1706.05296): groups that cooperate.

The agents of a group share a network that values the actions of each by what it has seen. A mixer makes one value of
the group of those; that is learned, from rewards of the group, by Q-learning. As it rises with each agent's value, each
agent can act by its own alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kernel_rllib.algorithms.group_layout import group_layout
from kernel_rllib.algorithms.off_policy import Pace, exploration_by_values
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.off_policy import OffPolicyArguments, OffPolicyConfig
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.exploration.exploration import Exploration, NoExploration
from kernel_rllib.exploration.groups import OfEachAgent
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.learners.targets import TargetParameters
from kernel_rllib.modules.catalog import activation_name
from kernel_rllib.modules.group_q_network import GroupQNetwork, GroupQOptions
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.episodes import EpisodeReplay, Episodes, pieces_of
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.honoured import ONE_HEAD, ONE_PASS
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

MixerName = Literal["qmix", "vdn"] | None
_PRIORITIES = (
    "prioritized_replay",
    "prioritized_replay_alpha",
    "prioritized_replay_beta",
    "prioritized_replay_eps",
    "final_prioritized_replay_beta",
    "prioritized_replay_beta_annealing_timesteps",
)
_EPSILONS = values(type="EpsilonGreedy", initial_epsilon=1.0, final_epsilon=0.02, epsilon_timesteps=10_000)


class QMIXConfig(OffPolicyConfig):
    """The settings of QMIX. VDN is `mixer="vdn"`; with `mixer=None` each agent learns for itself."""

    algorithm = "QMIX"

    defaults = values(
        lr=5e-4,
        grad_clip=10.0,
        train_batch_size=32,
        rollout_fragment_length=4,
        batch_mode="complete_episodes",
        # Releases before 1.0 said the same by the keys in `more_in_0_8_5`, and did not read this.
        exploration_config=_EPSILONS,
        evaluation_config=Default(values(explore=False), older={"0.8.5": values()}),
        replay_buffer_config=values(capacity=10_000),
        model=values(lstm_cell_size=64, max_seq_len=999_999),
    )
    in_all_dicts: ClassVar[tuple[str, ...]] = ("grad_clip",)
    more_in_0_8_5 = values(
        schedule_max_timesteps=100_000,
        exploration_fraction=0.1,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.02,
        per_worker_exploration=False,
    )
    less_in_0_8_5 = ("n_step", "tau", *_PRIORITIES)
    rows = (Name("grad_clip", "grad_norm_clipping", "grad_clip"),)

    mixer = Field[MixerName]("qmix", "What makes the value of a group: qmix, vdn (the sum), or None for no group.")
    mixing_embed_dim = Field(32, "The size of the hidden layer of the mixing network.", range=(1, None))
    double_q = Field(True, "Whether the online network chooses the actions that the target network values.")
    optim_alpha = Field(0.99, "How slowly rmsprop's mean of squares changes.", range=(0, 1))
    optim_eps = Field(1e-5, "What rmsprop adds to the root of that mean.", above=0)
    agent_hiddens = Field[list[int] | None](
        None,
        "Sizes of the dense layers of the agents' network; None: one layer of model lstm_cell_size.",
        range=(1, None),
        since="current",
    )
    agent_hidden_activation = Field[Activation]("relu", "What follows each of them.", since="current")
    recurrent = Field(True, "Whether agents remember, by a GRU of model lstm_cell_size.", since="current")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        mixer: MixerName = NOT_PROVIDED,
        mixing_embed_dim: int = NOT_PROVIDED,
        double_q: bool = NOT_PROVIDED,
        optim_alpha: float = NOT_PROVIDED,
        optim_eps: float = NOT_PROVIDED,
        agent_hiddens: list[int] | None = NOT_PROVIDED,
        agent_hidden_activation: Activation = NOT_PROVIDED,
        recurrent: bool = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how QMIX learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        buffer = self.replay_buffer_config
        if self.n_step != 1:
            yield f"n_step={self.n_step}, but targets of groups are of one step; leave it at 1"
        if buffer.type != UNIFORM or buffer.worker_side_prioritization or buffer.replay_sequence_length is not None:
            yield (
                "replay_buffer_config asks for more than its capacity, but whole episodes are replayed, each with the "
                "same chance; leave out all but capacity"
            )
        if buffer.replay_mode != "independent":
            yield f"replay_mode={buffer.replay_mode!r}, but the agents of a group are replayed together; leave it out"


class QMIX(Algorithm):
    """Learns the values of groups from replayed episodes, against a copy of the networks that stands still."""

    config: QMIXConfig
    config_class = QMIXConfig
    action_kinds = ("discrete",)
    train_rounds = True
    acts_on = frozenset({"model/lstm_cell_size", "model/max_seq_len"})
    without: ClassVar[Mapping[str, str]] = {
        **ONE_PASS,
        **ONE_HEAD,
        "model/fcnet_hiddens": "give the layers to agent_hiddens",
        "model/fcnet_activation": "give it to agent_hidden_activation",
        "model/free_log_std": "its actions are discrete",
        "model/use_lstm": "agents remember by a GRU, unless recurrent=False",
    }

    # -- building -----------------------------------------------------------------------------------------------------

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> GroupQNetwork:
        """Return the agents' network and the mixer.

        Raises:
            ConfigError: If the environment has no groups, or their agents are of several kinds.
        """
        self.layout, self.actions = group_layout(self.config, self.spaces, observation)
        config, cells = self.config, self.config.model.lstm_cell_size
        hidden = [cells] if config.agent_hiddens is None else config.agent_hiddens
        options = GroupQOptions(
            hidden=tuple(hidden),
            activation=activation_name(config.agent_hidden_activation),
            cells=cells if config.recurrent else 0,
            mixer=config.mixer,
            mixing_width=config.mixing_embed_dim,
        )
        return GroupQNetwork(self.layout, self.actions, options)

    def make_exploration(self) -> Exploration:
        """Return epsilon-greedy choices of each agent, unless the settings say otherwise."""
        each = exploration_by_values(self.config.exploration_config, self.actions)
        exploration = OfEachAgent(each, self.layout.agents)
        return exploration if self.config.explore else NoExploration(exploration)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the error of values of groups, with RMSProp as in section 6 of the paper."""
        found = self.objective(group_loss)
        found.optimizer = "rmsprop"
        settings = {"alpha": self.config.optim_alpha, "epsilon": self.config.optim_eps}
        found.optimizer_settings = {**settings, **found.optimizer_settings}
        return {"q": found}

    def setup_learning(self) -> None:
        """Make replay and the slower copy."""
        self.module: Any = self.learner.module
        self.replay = EpisodeReplay(self.config.replay_buffer_config.capacity)
        self.target = TargetParameters(self.learner.vector, self.learner.backend)
        self.pace = Pace(self.config.training_intensity or 0.0)
        self.draws = self.stream("replay")
        self.steps_at_last_target = 0
        self.last_metrics: Metrics = {}

    # -- an iteration -------------------------------------------------------------------------------------------------

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled, and learn from episodes that were kept, as often as the settings say."""
        for fragment in fragments:
            self.replay.add(list(pieces_of(fragment, self.config.model.max_seq_len)))
        if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts or not len(self.replay):
            return {}
        due = 1  # One update for each round of samples.
        if self.config.training_intensity is not None:
            due = self.pace.updates(self.progress.env_steps_new, self.config.train_batch_size)
        if due:
            self.last_metrics = mean_metrics([self.learn_once() for _ in range(due)])
        return self.last_metrics

    def learn_once(self) -> Metrics:
        """Draw episodes, step towards their targets, and let the target networks follow when it is time."""
        episodes = self.replay.sample(self.config.train_batch_size, self.draws)
        metrics = self.update(episodes.batch(self.targets_of(episodes)))
        if self.env_steps_sampled - self.steps_at_last_target >= self.config.target_network_update_freq:
            self.steps_at_last_target = self.env_steps_sampled
            self.target.follow(self.learner.vector, self.config.tau)
        return metrics

    def targets_of(self, episodes: Episodes) -> Array:
        """Return r + gamma Q_tot(s', u') [T * N, K] by the target networks, equation 6 of QMIX.

        u' is what each agent does best by the online network if `double_q`, and else by the target's.
        """
        target = self._values(episodes, self.target.vector)
        chooser = self._values(episodes) if self.config.double_q else target
        after = episodes.obs[1:]
        allowed = self.layout.allowed(after, self.actions)
        best = np.where(allowed, chooser[1:], -np.inf).argmax(axis=-1)
        chosen = np.take_along_axis(target[1:], best[..., None], axis=-1).reshape(-1, self.layout.agents)

        def mixed(nn: Ops, parameters: Parameters) -> Any:
            return self.module.group_values(nn, parameters, nn.constant(chosen), after)

        next_values = self.learner.backend.to_numpy(self.learner.evaluate(mixed, self.target.vector))
        rewards, over = (episodes.columns[name].reshape(-1, 1) for name in (columns.REWARDS, columns.TERMINATEDS))
        targets: Array = rewards + np.float32(self.config.gamma) * np.where(over, np.float32(0), next_values)
        return targets

    def _values(self, episodes: Episodes, vector: Any = None) -> Array:
        """Return the values of all actions of all agents [T + 1, N, agents, A]."""
        inputs = episodes.inputs()
        found = self.learner.evaluate(
            lambda nn, p: nn.to_numpy(self.module.train(nn, p, inputs)[columns.Q_VALUES]), vector
        )
        values: Array = found.reshape(*episodes.obs.shape[:2], self.layout.agents, self.actions)
        return values

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the slower copy and how far things are; the episodes too, where settings say so."""
        state = {
            "target": self.learner.backend.to_numpy(self.target.vector).copy(),
            "steps_at_last_target": self.steps_at_last_target,
            "owed": self.pace.owed,
            "draws": self.draws.bit_generator.state,
        }
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = self.replay.state()
        return state

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.target.vector[...] = self.learner.backend.vector(state["target"])
        self.steps_at_last_target = int(state["steps_at_last_target"])
        self.pace.owed = float(state["owed"])
        self.draws.bit_generator.state = state["draws"]
        if "replay" in state:
            self.replay.set_state(state["replay"])


def group_loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
    """Return the mean of (Q_tot(s, u) - y)^2 over the steps that count: equation 6 of QMIX."""
    assert isinstance(module, GroupQNetwork)
    values = module.train(nn, parameters, batch)[columns.Q_VALUES]
    index = nn.constant(batch[columns.ACTIONS].astype(np.int64))
    chosen = nn.take_along(values, nn.expand_dims(index, 2), axis=2)[:, :, 0]
    totals = module.group_values(nn, parameters, chosen, batch[columns.OBS])
    mask = nn.constant(batch[columns.LOSS_MASK][:, None])
    errors = (totals - nn.constant(batch[columns.VALUE_TARGETS])) * mask
    count = float(batch[columns.LOSS_MASK].sum()) * batch[columns.VALUE_TARGETS].shape[1]
    total = nn.sum(nn.square(errors)) / count
    taken = nn.stop_gradient(totals) * mask
    return total, {
        "total_loss": total,
        "mean_td_error": nn.sum(nn.abs(nn.stop_gradient(errors))) / count,
        "mean_q": nn.sum(taken) / count,
    }
