"""Ape-X QMIX: QMIX with many runners that never wait, and with episodes in several shards of replay.

Ape-X is of Horgan et al. (2018, arXiv 1803.00933), QMIX of Rashid et al. (2018, arXiv 1803.11485). Runners cut what
they sampled into episodes; shards keep these and draw some of them, each with the same chance. There are no priorities,
as what is drawn is whole episodes. See `distributed_replay.py` and `qmix.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel_rllib.algorithms.distributed_replay import DistributedReplay
from kernel_rllib.algorithms.qmix import QMIX, MixerName, QMIXConfig
from kernel_rllib.arrays import Array
from kernel_rllib.config.distributed_replay import DistributedReplayConfig
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.replay_config import UNIFORM
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.replay.episodes import pieces_of
from kernel_rllib.replay.pieces import PieceReplay, Pieces
from kernel_rllib.replay.shard import Experience

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ApexQMIXConfig(DistributedReplayConfig, QMIXConfig):
    """The settings of Ape-X QMIX."""

    algorithm = "ApexQMIX"

    defaults = values(
        n_step=1,
        exploration_config=values(type="PerWorkerEpsilonGreedy"),
        replay_buffer_config=values(type=UNIFORM, capacity=2_000_000, worker_side_prioritization=False),
    )

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
        max_requests_in_flight_per_replay_worker: float = NOT_PROVIDED,
        timeout_s_sampler_manager: float = NOT_PROVIDED,
        timeout_s_replay_manager: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how Ape-X QMIX learns; return this config."""
        return self


class ApexQMIX(DistributedReplay, QMIX):
    """QMIX whose runners never wait, and whose episodes are spread over several processes."""

    config: ApexQMIXConfig  # type: ignore[assignment]
    config_class = ApexQMIXConfig
    acts_on = QMIX.acts_on | {"max_requests_in_flight_per_env_runner"}

    def make_loss(self) -> Loss:
        """Return the loss of groups. No errors of single steps are computed by it, so there are no priorities."""
        return self.make_objectives()["q"].loss

    def setup_learning(self) -> None:
        """Make replay and the slower copy."""
        QMIX.setup_learning(self)
        self.replay: Any = self.make_replay() if self.keeps_samples else PieceReplay(1)

    def make_replay(self) -> Any:
        """Return the episodes of this policy in all shards, as one buffer; or a buffer here."""
        capacity = self.config.replay_buffer_config.capacity
        if self.shards is None:
            return PieceReplay(capacity)
        share = max(capacity // self.config.num_replay_buffer_shards, 1)
        make: Any = partial(PieceReplay, share)  # It keeps pieces where others keep rows.
        return self.shards.open(self.module_id, make)

    def experience_of(self, fragment: Fragment, vector: Array | None = None) -> Experience:
        """Return the episodes of a fragment, or what there is of them."""
        pieces = Pieces(list(pieces_of(fragment, self.config.model.max_seq_len)))
        return Experience(pieces, None, fragment.weights_version)  # type: ignore[arg-type]

    def targets_of(self, batch: Any) -> Array:
        """Return those of QMIX for episodes."""
        return QMIX.targets_of(self, batch)

    def learn_once(self) -> Metrics:
        """Take episodes that were drawn, step towards their targets, and let the target networks follow in time."""
        episodes: Any = self.draw()
        metrics = self.update(episodes.batch(self.targets_of(episodes)))
        self.follow()
        return metrics

    def own_state(self) -> dict[str, Any]:
        """Return the slower copy and how far things are; the episodes too, where settings say so."""
        return QMIX.own_state(self)

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned; runners begin with the parameters of now."""
        QMIX.set_own_state(self, state)
        self._steps_at_broadcast = self.env_steps_sampled
