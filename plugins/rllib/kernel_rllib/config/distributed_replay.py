"""Settings of algorithms whose replay is spread over several processes: those of Ape-X."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.off_policy import OffPolicyConfig
from kernel_rllib.config.replay_config import PRIORITIZED
from kernel_rllib.nearest import did_you_mean

SHARDS, DELAY = "num_replay_buffer_shards", "max_weight_sync_delay"
OF_REPLAY = (SHARDS, DELAY, "debug")
"""The keys of `optimizer` that are about shards of replay and runners, as in RLlib, and not about steps of Adam."""

_NO_POLLING = "what is there is taken, and nothing is polled"


class DistributedReplayConfig(OffPolicyConfig):
    """Settings of algorithms with runners that never wait, and shards of replay. `optimizer` has the shards' number."""

    defaults = values(
        optimizer=values(max_weight_sync_delay=400, num_replay_buffer_shards=4, debug=False),
        n_step=3,
        num_env_runners=32,
        train_batch_size=512,
        rollout_fragment_length=50,
        target_network_update_freq=500_000,
        num_steps_sampled_before_learning_starts=50_000,
        max_requests_in_flight_per_env_runner=2,
        training_intensity=Default(1.0, older={"0.8.5": None}),
        min_time_s_per_iteration=30,
        min_sample_timesteps_per_iteration=25_000,
        replay_buffer_config=values(
            type=PRIORITIZED,
            capacity=2_000_000,
            alpha=0.6,
            beta=0.4,
            final_beta=0.4,
            worker_side_prioritization=True,
        ),
    )

    max_requests_in_flight_per_replay_worker = Field[float](
        4, "How many fragments may be on their way to one shard of replay.", range=(1, None), since="2.x"
    )
    timeout_s_sampler_manager = Field(
        0.0, "Seconds that samples are waited for.", range=(0, None), unit="seconds", since="2.x", inert=_NO_POLLING
    )
    timeout_s_replay_manager = Field(
        0.0, "Seconds that shards are waited for.", range=(0, None), unit="seconds", since="2.x", inert=_NO_POLLING
    )

    @property
    def num_replay_buffer_shards(self) -> int:
        """The number of processes that keep samples; 0: the learning one keeps them."""
        return int(self.optimizer.get(SHARDS, 4))

    @property
    def max_weight_sync_delay(self) -> int:
        """The number of steps of a runner after which all runners are given the current parameters."""
        return int(self.optimizer.get(DELAY, 400))

    @property
    def optimizer_options(self) -> dict[str, Any]:
        """The other entries of `optimizer`: arguments of the optimizer of parameters."""
        return {name: value for name, value in self.optimizer.items() if name not in OF_REPLAY}

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        for name, least in ((SHARDS, 0), (DELAY, 1)):
            value = self.optimizer.get(name, least)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                yield f"optimizer has {name}={value!r}, and needs a whole number that is {least} or more"
        for name in self.optimizer_options:
            nearest = did_you_mean(name, OF_REPLAY)
            if nearest:
                yield f"optimizer has {name!r}{nearest}"
