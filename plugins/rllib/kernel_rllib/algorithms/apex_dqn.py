"""Ape-X DQN: DQN with many runners and shards of replay (Horgan et al., 2018, arXiv 1803.00933).

Runner i of N takes random actions with probability 0.4^(1 + 7 i / (N - 1)) (section 4.1); see `distributed_replay.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernel_rllib.algorithms.distributed_replay import DistributedReplay
from kernel_rllib.algorithms.dqn import DQN, DQNConfig
from kernel_rllib.algorithms.simple_q import TdErrorLoss
from kernel_rllib.config.distributed_replay import DistributedReplayConfig
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ApexDQNConfig(DistributedReplayConfig, DQNConfig):
    """The settings of Ape-X DQN."""

    algorithm = "ApexDQN"

    defaults = values(epsilon=None, exploration_config=values(type="PerWorkerEpsilonGreedy"))

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
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
        max_requests_in_flight_per_replay_worker: float = NOT_PROVIDED,
        timeout_s_sampler_manager: float = NOT_PROVIDED,
        timeout_s_replay_manager: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how Ape-X DQN learns; return this config."""
        return self


class ApexDQN(DistributedReplay, DQN):
    """DQN whose runners never wait, and whose replay is spread over several processes."""

    config: ApexDQNConfig  # type: ignore[assignment]
    config_class = ApexDQNConfig
    acts_on = DQN.acts_on | {"max_requests_in_flight_per_env_runner"}
