"""The same training in kernel.rllib, Stable-Baselines3 and Ray's RLlib: run by `benchmarks.rllib`, one process each.

python benchmarks/rllib_systems.py kernel|sb3|ray STEP SEED

Settings are equal: those of Stable-Baselines3's zoo. Prints a line of JSON: how many steps environments made, and the
seconds and CPU seconds that this took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium

SLOW_ENV = "SlowCartPole-v1"
STEP_SECONDS = 0.001
ENOUGH = 450
"""The mean return over 20 episodes at which CartPole counts as learned."""
LEAST_STEPS = 4_096
"""How many steps are made before measuring begins."""
LEAST_STEPS_OF_SAC = 512
"""The same for SAC, which learns once a step."""
LANES, FRAGMENT = 8, 32


class SlowCartPole(gymnasium.Wrapper):  # type: ignore[type-arg]
    """CartPole whose steps take a millisecond of a processor."""

    def __init__(self, env_config: Any = None) -> None:
        """Wrap CartPole."""
        super().__init__(gymnasium.make("CartPole-v1"))

    def step(self, action: Any) -> Any:
        """Step after some work."""
        until = time.thread_time() + STEP_SECONDS
        while time.thread_time() < until:
            pass
        return self.env.step(action)


class Measured:
    """Counts steps, seconds and CPU seconds from when it is made."""

    def __init__(self, steps: int = 0) -> None:
        """Begin, after this many steps."""
        self._steps, self._began, self._cpu = steps, time.perf_counter(), time.process_time()

    def until(self, steps: int) -> dict[str, float]:
        """Return what was counted, when so many steps have been made."""
        return {
            "steps": steps - self._steps,
            "seconds": time.perf_counter() - self._began,
            "cpu": time.process_time() - self._cpu,
        }


# -- kernel ------------------------------------------------------------------------------------------------------------

ALONE = {"num_env_runners": 0, "min_time_s_per_iteration": 0}
OUR_PPO = {
    **ALONE, "env": "CartPole-v1", "num_envs": LANES, "train_batch_size": LANES * FRAGMENT, "minibatch_size": 256,
    "num_epochs": 20, "lambda": 0.8, "gamma": 0.98, "lr": [[0, 1e-3], [100_000, 0.0]], "clip_param": 0.2,
    "vf_clip_param": 1e9, "vf_loss_coeff": 0.5, "grad_clip": 0.5, "use_kl_loss": False, "entropy_coeff": 0.0,
    "optimizer": {"epsilon": 1e-5}, "metrics_num_episodes_for_smoothing": 20,
    "model": {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh", "vf_share_layers": False},
}  # fmt: skip
OUR_DQN = {
    **ALONE, "env": "CartPole-v1", "rollout_fragment_length": 256, "training_intensity": 32, "lr": 2.3e-3,
    "train_batch_size": 64, "target_network_update_freq": 10, "num_steps_sampled_before_learning_starts": 1000,
    "epsilon": [[0, 1.0], [8_000, 0.04]], "grad_clip": 10.0, "double_q": False, "dueling": False, "hiddens": [],
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 100_000},
    "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
}  # fmt: skip
OUR_SAC = {
    **ALONE, "env": "Pendulum-v1", "rollout_fragment_length": 1, "training_intensity": 256, "train_batch_size": 256,
    "num_steps_sampled_before_learning_starts": 256, "replay_buffer_config": {"capacity": 50_000},
}  # fmt: skip


def kernel_steps(algorithm: Any, steps: int, least: int = LEAST_STEPS) -> dict[str, float]:
    """Train for some steps after the first ones, and return what they took."""
    while algorithm.env_steps_sampled < least:
        algorithm.train()
    first = algorithm.env_steps_sampled
    measured = Measured(first)
    while algorithm.env_steps_sampled < first + steps:
        algorithm.train()
    return measured.until(algorithm.env_steps_sampled)


def kernel_ppo(seed: int, **more: Any) -> Any:
    """Return PPO of CartPole."""
    from kernel_rllib import PPO

    return PPO({**OUR_PPO, "seed": seed, **more})


def kernel_learned(seed: int) -> dict[str, float]:
    """Train until CartPole is learned."""
    measured = Measured()
    algorithm = kernel_ppo(seed)
    while not algorithm.train()["episode_reward_mean"] >= ENOUGH:
        pass
    return measured.until(algorithm.env_steps_sampled)


def kernel_native(seed: int) -> dict[str, float]:
    """Train in 256 lanes that one numpy environment steps, with 4 epochs."""
    many: dict[str, Any] = {
        "gym_env_vectorize_mode": "native",
        "num_envs": 256,
        "train_batch_size": 256 * FRAGMENT,
        "minibatch_size": 1024,
        "num_epochs": 4,
    }
    return kernel_steps(kernel_ppo(seed, **many), 400_000)


def kernel_in_runners(seed: int, runners: int, steps: int, **more: Any) -> dict[str, float]:
    """Train with runners of one CPU each."""
    import kernel

    if runners:
        kernel.init(num_cpus=runners + 1)
    return kernel_steps(kernel_ppo(seed, num_env_runners=runners, num_cpus_per_env_runner=1, **more), steps)


def kernel_slow(seed: int, runners: int, **more: Any) -> dict[str, float]:
    """Train in environments of a millisecond a step."""
    return kernel_in_runners(seed, runners, 4_096, env=SlowCartPole, **more)


def kernel_dqn(seed: int) -> dict[str, float]:
    """Train DQN."""
    from kernel_rllib import DQN

    return kernel_steps(DQN({**OUR_DQN, "seed": seed}), 10_000)


def kernel_sac(seed: int) -> dict[str, float]:
    """Train SAC."""
    from kernel_rllib import SAC

    return kernel_steps(SAC({**OUR_SAC, "seed": seed}), 1_000, LEAST_STEPS_OF_SAC)


def kernel_first(seed: int) -> dict[str, float]:
    """Build and train once."""
    measured = Measured()
    algorithm = kernel_ppo(seed)
    algorithm.train()
    return measured.until(algorithm.env_steps_sampled)


# -- Stable-Baselines3 -------------------------------------------------------------------------------------------------


def sb3_steps(model: Any, steps: int, least: int = LEAST_STEPS) -> dict[str, float]:
    """Train for some steps after the first ones, and return what they took."""
    model.learn(least)
    first = model.num_timesteps
    measured = Measured(first)
    model.learn(steps, reset_num_timesteps=False)
    return measured.until(model.num_timesteps)


def sb3_ppo(seed: int, env: Any = "CartPole-v1") -> Any:
    """Return PPO of CartPole."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    return PPO(
        "MlpPolicy", make_vec_env(env, n_envs=LANES, seed=seed), n_steps=FRAGMENT, batch_size=256, n_epochs=20,
        gae_lambda=0.8, gamma=0.98, learning_rate=lambda left: 1e-3 * left, clip_range=0.2, ent_coef=0.0,
        stats_window_size=20, seed=seed, device="cpu",
    )  # fmt: skip


def sb3_learned(seed: int) -> dict[str, float]:
    """Train until CartPole is learned."""
    import numpy as np
    from stable_baselines3.common.callbacks import BaseCallback

    class Until(BaseCallback):
        def _on_step(self) -> bool:
            returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
            return not (len(returns) == 20 and np.mean(returns) >= ENOUGH)

    measured = Measured()
    model = sb3_ppo(seed)
    model.learn(100_000, callback=Until())
    return measured.until(model.num_timesteps)


def sb3_dqn(seed: int) -> dict[str, float]:
    """Train DQN."""
    from stable_baselines3 import DQN

    model = DQN(
        "MlpPolicy", "CartPole-v1", learning_rate=2.3e-3, batch_size=64, buffer_size=100_000, learning_starts=1000,
        gamma=0.99, target_update_interval=10, train_freq=256, gradient_steps=128, exploration_fraction=0.16,
        exploration_final_eps=0.04, policy_kwargs={"net_arch": [256, 256]}, seed=seed, device="cpu",
    )  # fmt: skip
    return sb3_steps(model, 10_000)


def sb3_sac(seed: int) -> dict[str, float]:
    """Train SAC."""
    from stable_baselines3 import SAC

    model = SAC(
        "MlpPolicy", "Pendulum-v1", batch_size=256, buffer_size=50_000, learning_starts=256, train_freq=1,
        gradient_steps=1, seed=seed, device="cpu",
    )  # fmt: skip
    return sb3_steps(model, 1_000, LEAST_STEPS_OF_SAC)


def sb3_first(seed: int) -> dict[str, float]:
    """Build and train once."""
    measured = Measured()
    model = sb3_ppo(seed)
    model.learn(LANES * FRAGMENT)
    return measured.until(model.num_timesteps)


# -- RLlib -------------------------------------------------------------------------------------------------------------


def ray_config(kind: str, seed: int, hidden: list[int], activation: str) -> Any:
    """Return settings of one of its algorithms, for one process."""
    import ray
    from ray.rllib.algorithms.dqn import DQNConfig
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.sac import SACConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    ray.init(logging_level="error", log_to_driver=False, include_dashboard=False)
    config = {"PPO": PPOConfig, "DQN": DQNConfig, "SAC": SACConfig}[kind]()
    model = DefaultModelConfig(fcnet_hiddens=hidden, fcnet_activation=activation, vf_share_layers=False)
    return config.debugging(seed=seed, log_level="ERROR").rl_module(model_config=model)


def ray_steps(algorithm: Any, steps: int) -> dict[str, float]:
    """Train for some steps after the first ones, and return what they took."""

    def train() -> int:
        return int(algorithm.train()["num_env_steps_sampled_lifetime"])

    first = train()
    while first < LEAST_STEPS // 2:
        first = train()
    measured, last = Measured(first), first
    while last < first + steps:
        last = train()
    return measured.until(last)


def ray_ppo(seed: int, runners: int = 0) -> Any:
    """Return PPO of CartPole."""
    config = ray_config("PPO", seed, [64, 64], "tanh").environment("CartPole-v1")
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=LANES // max(runners, 1))
    config.training(
        train_batch_size=LANES * FRAGMENT, minibatch_size=256, num_epochs=20, lambda_=0.8, gamma=0.98,
        lr=[[0, 1e-3], [100_000, 0.0]], clip_param=0.2, vf_clip_param=1e9, vf_loss_coeff=0.5, grad_clip=0.5,
        use_kl_loss=False, entropy_coeff=0.0,
    )  # fmt: skip
    return config.build_algo()


def ray_dqn(seed: int) -> dict[str, float]:
    """Train DQN."""
    config = ray_config("DQN", seed, [256, 256], "relu").environment("CartPole-v1")
    config.env_runners(num_env_runners=0, rollout_fragment_length=256)
    config.training(
        train_batch_size=64, training_intensity=32, lr=2.3e-3, target_network_update_freq=10, double_q=False,
        dueling=False, num_steps_sampled_before_learning_starts=1000, epsilon=[[0, 1.0], [8_000, 0.04]], grad_clip=10.0,
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 100_000},
    )  # fmt: skip
    return ray_steps(config.build_algo(), 3_000)


def ray_sac(seed: int) -> dict[str, float]:
    """Train SAC."""
    config = ray_config("SAC", seed, [256, 256], "relu").environment("Pendulum-v1")
    config.env_runners(num_env_runners=0, rollout_fragment_length=1)
    config.training(train_batch_size=256, training_intensity=256, num_steps_sampled_before_learning_starts=256)
    return ray_steps(config.build_algo(), 1_000)


def ray_first(seed: int) -> dict[str, float]:
    """Build and train once."""
    measured = Measured()
    algorithm = ray_ppo(seed)
    algorithm.train()
    return measured.until(LANES * FRAGMENT)


SYSTEMS: dict[str, dict[str, Callable[[int], dict[str, float]]]] = {
    "kernel": {
        "ppo": lambda seed: kernel_steps(kernel_ppo(seed), 30_000),
        "learned": kernel_learned,
        "dqn": kernel_dqn,
        "sac": kernel_sac,
        "native": kernel_native,
        "first": kernel_first,
        "slow": lambda seed: kernel_slow(seed, 0),
        "slow, 2 runners": lambda seed: kernel_slow(seed, 2),
        "slow, 2 runners, pipelined": lambda seed: kernel_slow(seed, 2, pipelined_sampling=True),
        "ppo, 2 runners, pipelined": lambda seed: kernel_in_runners(seed, 2, 30_000, pipelined_sampling=True),
    },
    "sb3": {
        "ppo": lambda seed: sb3_steps(sb3_ppo(seed), 10_000),
        "learned": sb3_learned,
        "dqn": sb3_dqn,
        "sac": sb3_sac,
        "first": sb3_first,
    },
    "ray": {
        "ppo": lambda seed: ray_steps(ray_ppo(seed), 4_000),
        "dqn": ray_dqn,
        "sac": ray_sac,
        "first": ray_first,
    },
}
"""System to step to what runs it."""


def main() -> None:
    """Run one step of one system."""
    system, step, seed = sys.argv[1:4]
    print(json.dumps(SYSTEMS[system][step](int(seed))), flush=True)
    os._exit(0)  # what was measured is over, and how long a library takes to end is not asked


if __name__ == "__main__":
    main()
