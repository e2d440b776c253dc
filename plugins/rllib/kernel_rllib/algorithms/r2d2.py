"""R2D2: DQN that remembers, from replayed sequences (Kapturowski et al., 2019, OpenReview r1lyTjAqYX).

A sequence begins with what was remembered there while it was sampled. That memory is older than the parameters that
learn: the first `burn_in_len` steps only bring it up to date, by both networks, and have no loss (section 3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.dqn import DQN, DQNConfig
from kernel_rllib.algorithms.off_policy import beta_schedule, exploration_by_values, require_discrete
from kernel_rllib.algorithms.replaying import TD_ERRORS
from kernel_rllib.algorithms.simple_q import SimpleQConfig, TdErrorLoss, statistics
from kernel_rllib.arrays import Array
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.replay_config import PRIORITIZED, UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import SequenceBatch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.recurrent_q_network import RecurrentQNetwork
from kernel_rllib.nn.ops import Ops
from kernel_rllib.replay.episodes import Episodes, Piece, pieces_of
from kernel_rllib.replay.sequences import SequenceReplay, priority_of_sequences
from kernel_rllib.returns.n_step import n_step
from kernel_rllib.returns.rescaling import rescaled, unscaled
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_OF_DQN = ("noisy", "num_atoms", "before_learn_on_batch")
"""Settings of DQN that have no meaning here, unless they are as they are by default."""


class R2D2Config(DQNConfig):
    """The settings of R2D2. `model` has the memory: `lstm_cell_size`, and `max_seq_len` steps of a sequence."""

    algorithm = "R2D2"

    defaults = values(
        lr=1e-4,
        gamma=0.997,
        adam_epsilon=1e-3,
        num_env_runners=2,
        train_batch_size=1000,
        target_network_update_freq=1000,
        training_intensity=150.0,
        batch_mode="complete_episodes",
        model=values(use_lstm=True),
        replay_buffer_config=Default(
            values(type=PRIORITIZED, capacity=100_000, alpha=0.9, beta=0.6),
            older={"2.x": values(type=UNIFORM, capacity=100_000)},
        ),
    )
    rows = (Name("burn_in_len", "", "burn_in", "burn_in"),)

    zero_init_states = Field(
        False,
        "Whether sequences begin with an empty memory, not with that of the runner.",
        older={"2.x": True},
    )
    use_h_function = Field(True, "Whether values are kept small by an invertible function, h.")
    h_function_epsilon = Field(1e-3, "How steep h is at least.", above=0)
    priority_eta = Field(
        0.9, "How much the largest error of a sequence counts in its priority, beside the mean.", range=(0, 1),
        since="current",
    )  # fmt: skip

    memory_horizon = Field(
        0, "For how many steps the LSTM remembers at first; 0: it forgets half in each step.", range=(0, None),
        since="current",
    )  # fmt: skip

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        zero_init_states: bool = NOT_PROVIDED,
        use_h_function: bool = NOT_PROVIDED,
        h_function_epsilon: float = NOT_PROVIDED,
        priority_eta: float = NOT_PROVIDED,
        memory_horizon: int = NOT_PROVIDED,
        double_q: bool = NOT_PROVIDED,
        dueling: bool = NOT_PROVIDED,
        hiddens: list[int] = NOT_PROVIDED,
        noisy: bool = NOT_PROVIDED,
        sigma0: float = NOT_PROVIDED,
        num_atoms: int = NOT_PROVIDED,
        v_min: float = NOT_PROVIDED,
        v_max: float = NOT_PROVIDED,
        categorical_distribution_temperature: float = NOT_PROVIDED,
        burn_in_len: int = NOT_PROVIDED,
        before_learn_on_batch: Callable[..., Any] | None = NOT_PROVIDED,
        adam_epsilon: float = NOT_PROVIDED,
        td_error_loss_fn: TdErrorLoss = NOT_PROVIDED,
        epsilon: float | Schedule | None = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how R2D2 learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        model, buffer = self.model, self.replay_buffer_config
        if not model.use_lstm or model.use_attention:
            yield "R2D2 remembers by an LSTM: leave model use_lstm=True, without use_attention, or take DQN"
        for name in _OF_DQN:
            if not self.is_default(name):
                yield f"{name}={getattr(self, name)} is of DQN, and R2D2 does not have it; leave it out, or take DQN"
        if buffer.type not in (UNIFORM, PRIORITIZED) or buffer.worker_side_prioritization:
            yield (
                f"replay_buffer_config asks for {buffer.type!r} or worker_side_prioritization, and sequences are kept "
                f"by one of R2D2's own: leave type at {PRIORITIZED!r} or {UNIFORM!r}, and the other at False"
            )
        if buffer.replay_sequence_length not in (None, model.max_seq_len):
            yield (
                f"replay_sequence_length={buffer.replay_sequence_length}, and model max_seq_len={model.max_seq_len}, "
                "are both the steps of a sequence; leave out the former"
            )
        if isinstance(self.n_step, tuple):
            yield f"n_step={self.n_step}, but sequences have rewards of one number of steps; give that"


class R2D2(DQN):
    """Q-learning with an LSTM, from sequences that are stored with the state at their beginning."""

    config: R2D2Config
    replay: Any
    config_class = R2D2Config
    perturbs_parameters = False
    acts_on = frozenset(
        f"model/{name}"
        for name in ("head_fcnet_hiddens", "head_fcnet_activation", "use_lstm", "lstm_cell_size", "max_seq_len")
    )
    without: ClassVar[Mapping[str, str]] = {
        **DQN.without,
        "model/use_attention": "it remembers by an LSTM",
        "before_learn_on_batch": "it learns from sequences",
    }

    # -- building -----------------------------------------------------------------------------------------------------

    def refuse_what_is_missing(self) -> None:
        """Refuse explorations that there are not."""
        exploration_by_values(self._settings.exploration_settings, 2)

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Any:
        """Return a network with a memory, and a value for each action."""
        require_discrete(self.spaces, self.config.title)
        model, options = self.config.model, self.network_options()
        cells, horizon = model.lstm_cell_size, self.config.memory_horizon
        return RecurrentQNetwork(observation[0], distribution.parameter_size, cells, horizon, options)

    def make_loss(self) -> Loss:
        """Return the error of values in the steps of sequences that count."""
        return sequence_loss(self.config)

    def make_replay(self) -> Any:
        """Return what keeps sequences: as many as have the steps of `capacity`."""
        settings, learned = self.config.replay_buffer_config, self.learned_steps
        alpha = settings.alpha if settings.is_prioritized else 0.0
        slots = max(settings.capacity // learned, 1)
        return SequenceReplay(slots, alpha=alpha, beta=beta_schedule(settings), epsilon=settings.eps)

    @property
    def learned_steps(self) -> int:
        """The number of steps of a sequence that the loss counts."""
        return self.config.model.max_seq_len - self.config.burn_in_len

    # -- an iteration -------------------------------------------------------------------------------------------------

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled as sequences, and learn from some that were kept as often as the settings say."""
        for fragment in fragments:
            self.replay.add(list(pieces_of(fragment, self.config.model.max_seq_len, self.config.burn_in_len)))
        if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts or not len(self.replay):
            return {}
        due = self.pace.updates(self.progress.env_steps_new, self.config.train_batch_size)
        if due:
            self.last_metrics = mean_metrics([self.learn_once() for _ in range(due)])
        return self.last_metrics

    def learn_once(self) -> Metrics:
        """Draw sequences, step towards their targets, and let the target network follow when it is time."""
        count = max(self.config.train_batch_size // self.learned_steps, 1)
        pieces, weights, places = self.replay.sample(count, self.draws, self.env_steps_sampled)
        episodes, own = self.begun(pieces), self.begun(pieces, self.target.vector)
        metrics = self.update(sequence_batch(episodes, self.targets_of_sequences(episodes, own), weights))
        errors = np.asarray(metrics.pop(TD_ERRORS)).reshape(episodes.mask.shape)
        self.replay.update_priorities(places, priority_of_sequences(errors, episodes.mask, self.config.priority_eta))
        self.follow()
        return {**metrics, "mean_td_error": float(errors.sum() / episodes.mask.sum())}

    def begun(self, pieces: Sequence[Piece], vector: Any = None) -> Episodes:
        """Return the steps of sequences that are learned from, with what is remembered after their burn-in.

        Args:
            pieces: The sequences.
            vector: The parameters by which that is remembered; None for those that learn.
        """
        if self.config.zero_init_states:
            pieces = [
                Piece(
                    piece.columns, {name: np.zeros_like(each) for name, each in piece.state_in.items()}, piece.burn_in
                )
                for piece in pieces
            ]
        late = [piece for piece in pieces if piece.burn_in]
        if not late:
            return Episodes(pieces)
        observed = np.stack([piece.columns[columns.OBS][: piece.burn_in] for piece in late], axis=1)
        first = {name: np.stack([piece.state_in[name] for piece in late]) for name in late[0].state_in}
        state = self._outputs_of(observed, first, vector)[columns.STATE_OUT]
        memories = iter(range(len(late)))
        begun = []
        for piece in pieces:
            if piece.burn_in:
                place = next(memories)
                piece = piece.after_burn_in({name: each[place] for name, each in state.items()})
            begun.append(piece)
        return Episodes(begun)

    def targets_of_sequences(self, online: Episodes, target: Episodes) -> Array:
        """Return h( r + ... + gamma^n h^-1( Q'(s', a) ) ) [T, N]: equation 2, over n steps within a sequence.

        Q' is the target network's, and a is the best action by the network that learns if `double_q`, else by Q'.

        Args:
            online: Sequences, with what the network that learns remembers before them.
            target: The same, with what the target network remembers.
        """
        beyond = np.zeros((1, online.mask.shape[1]), np.float32)
        values = self._values_of(target, self.target.vector)
        chooser = self._values_of(online) if self.config.double_q else values
        best = chooser.argmax(axis=-1)
        following = np.take_along_axis(values, best[..., None], axis=-1)[..., 0]
        is_last = online.mask - np.concatenate([online.mask[1:], beyond]) > 0
        found = n_step(
            online.columns[columns.REWARDS],
            online.columns[columns.TERMINATEDS],
            is_last,
            n=self.config.n_step_most,
            gamma=self.config.gamma,
            valid=online.mask > 0,
        )
        epsilon, has_h = self.config.h_function_epsilon, self.config.use_h_function
        next_values = found.at_last(following[1:])
        if not has_h:
            plain: Array = found.rewards + found.discounts * next_values
            return plain.astype(np.float32)
        return rescaled(found.rewards + found.discounts * unscaled(next_values, epsilon), epsilon).astype(np.float32)

    def _values_of(self, episodes: Episodes, vector: Any = None) -> Array:
        """Return the values of all actions [T + 1, N, A]."""
        inputs = episodes.inputs()
        found = self._outputs_of(inputs[columns.OBS], inputs[columns.STATE_IN], vector)[columns.Q_VALUES]
        values: Array = found.reshape(*episodes.obs.shape[:2], -1)
        return values

    def _outputs_of(self, obs: Array, state_in: Mapping[str, Array], vector: Any = None) -> dict[str, Any]:
        """Return what the network gives for observations [T, N, ...] of one episode each, and its memories after."""
        resets = np.zeros(obs.shape[:2], bool)
        inputs = {columns.OBS: obs, columns.STATE_IN: state_in, columns.RESETS: resets}

        def forward(nn: Ops, parameters: Parameters) -> dict[str, Any]:
            outputs = self.learner.module.train(nn, parameters, inputs)
            state = {name: nn.to_numpy(each) for name, each in outputs[columns.STATE_OUT].items()}
            return {columns.Q_VALUES: nn.to_numpy(outputs[columns.Q_VALUES]), columns.STATE_OUT: state}

        found: dict[str, Any] = self.learner.evaluate(forward, vector)
        return found


def sequence_batch(episodes: Episodes, targets: Array, weights: Array) -> SequenceBatch:
    """Return what the loss reads.

    Args:
        episodes: The sequences, with what the network that learns remembers before them.
        targets: The targets of the values of their steps [T, N].
        weights: The weight of the loss of each sequence [N].
    """
    whole = {
        columns.OBS: episodes.obs[:-1],
        columns.RESETS: np.zeros(episodes.mask.shape, bool),
        columns.ACTIONS: episodes.columns[columns.ACTIONS],
        columns.LOSS_MASK: episodes.mask,
        columns.VALUE_TARGETS: targets,
        columns.WEIGHTS: episodes.mask * weights,
    }
    return SequenceBatch(whole, episodes.state_in)


def sequence_loss(config: SimpleQConfig) -> Loss:
    """Return the loss of values against `value_targets`: Huber's or the square, over the steps that count.

    L = sum( w l(Q(s, a) - y) ) / T, where w is the weight of a step's sequence, and T how many steps count.

    Args:
        config: Says which of the two it is (`td_error_loss_fn`).
    """

    def loss(nn: Ops, module: Module, parameters: Parameters, batch: Batch) -> tuple[Any, Metrics]:
        assert isinstance(batch, SequenceBatch)
        q_values = module.train(nn, parameters, batch)[columns.Q_VALUES]
        chosen = nn.take_along(q_values, nn.constant(batch[columns.ACTIONS][:, None].astype(np.int64)), axis=1)[:, 0]
        errors = (chosen - nn.constant(batch[columns.VALUE_TARGETS])) * nn.constant(batch[columns.LOSS_MASK])
        costs = nn.huber(errors) if config.td_error_loss_fn == "huber" else 0.5 * nn.square(errors)
        total = nn.sum(costs * nn.constant(batch[columns.WEIGHTS])) / float(batch[columns.LOSS_MASK].sum())
        return total, {"total_loss": total, TD_ERRORS: errors, **statistics(nn, chosen)}

    return loss


def _zeros(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.zeros_like(array) for name, array in arrays.items()}
