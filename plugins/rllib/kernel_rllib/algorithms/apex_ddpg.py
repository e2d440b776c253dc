"""Ape-X DDPG: DDPG with many runners and shards of replay (Horgan et al., 2018, arXiv 1803.00933, section 3.2).

The noise of runner i of N is of a size like the epsilons of Ape-X DQN; see `distributed_replay.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_rllib.algorithms.ddpg import DDPG, DDPGConfig
from kernel_rllib.algorithms.distributed_replay import DistributedReplay
from kernel_rllib.config.distributed_replay import DistributedReplayConfig
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.model_config import Activation
from kernel_rllib.config.off_policy import OffPolicyArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ApexDDPGConfig(DistributedReplayConfig, DDPGConfig):
    """The settings of Ape-X DDPG."""

    algorithm = "ApexDDPG"

    defaults = values(exploration_config=values(type="PerWorkerOrnsteinUhlenbeckNoise"))

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        actor_lr: float | Schedule = NOT_PROVIDED,
        critic_lr: float | Schedule = NOT_PROVIDED,
        actor_hiddens: list[int] = NOT_PROVIDED,
        actor_hidden_activation: Activation = NOT_PROVIDED,
        critic_hiddens: list[int] = NOT_PROVIDED,
        critic_hidden_activation: Activation = NOT_PROVIDED,
        use_state_preprocessor: bool = NOT_PROVIDED,
        twin_q: bool = NOT_PROVIDED,
        policy_delay: int = NOT_PROVIDED,
        smooth_target_policy: bool = NOT_PROVIDED,
        target_noise: float = NOT_PROVIDED,
        target_noise_clip: float = NOT_PROVIDED,
        use_huber: bool = NOT_PROVIDED,
        huber_threshold: float = NOT_PROVIDED,
        l2_reg: float = NOT_PROVIDED,
        max_requests_in_flight_per_replay_worker: float = NOT_PROVIDED,
        timeout_s_sampler_manager: float = NOT_PROVIDED,
        timeout_s_replay_manager: float = NOT_PROVIDED,
        **common: Unpack[OffPolicyArguments],
    ) -> Self:
        """Set how Ape-X DDPG learns; return this config."""
        return self


class ApexDDPG(DistributedReplay, DDPG):
    """DDPG whose runners never wait, and whose replay is spread over several processes."""

    config: ApexDDPGConfig  # type: ignore[assignment]
    config_class = ApexDDPGConfig
    acts_on = DDPG.acts_on | {"max_requests_in_flight_per_env_runner"}
