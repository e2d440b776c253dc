"""Twin delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477)."""

from __future__ import annotations

from kernel_rllib.algorithms.ddpg import DDPG, DDPGConfig
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.replay_config import UNIFORM


class TD3Config(DDPGConfig):
    """The settings of TD3: those of DDPG, with other defaults."""

    algorithm = "TD3"

    defaults = values(
        twin_q=True,
        policy_delay=2,
        smooth_target_policy=True,
        l2_reg=0.0,
        tau=5e-3,
        train_batch_size=100,
        num_steps_sampled_before_learning_starts=10_000,
        replay_buffer_config=values(type=UNIFORM, capacity=1_000_000),
        exploration_config=values(
            type="GaussianNoise",
            random_timesteps=10_000,
            stddev=0.1,
            initial_scale=1.0,
            final_scale=1.0,
            scale_timesteps=1,
        ),
        clip_rewards=Default(None, older={"1.x": False}),
    )


class TD3(DDPG):
    """DDPG with two critics, of which the lower one counts, delayed updates of the policy, and smoothed targets."""

    config: TD3Config
    config_class = TD3Config
