"""A server that learns CartPole from clients: it knows what they see and do, and has no cart of its own.

    python -m kernel_rllib.examples.cartpole_server --run PPO
    python -m kernel_rllib.examples.cartpole_client --inference-mode local    # in any number of other shells

It ends when the mean return of the clients' episodes is reached, and may keep what it has learned in a checkpoint.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.errors import ConfigError
from kernel_rllib.serving.server_input import PolicyServerInput

SEEN = spaces.Box(np.float32(-np.inf), np.float32(np.inf), (4,), np.float32)
DONE = spaces.Discrete(2)


def ppo_config(steps: int) -> Any:
    """Return the settings of PPO, which learns from so many steps at a time."""
    return PPOConfig().training(
        train_batch_size=steps,
        minibatch_size=min(125, steps),
        num_epochs=10,
        lr=1e-3,
        gamma=0.99,
        lambda_=0.95,
        use_kl_loss=False,
    )


def dqn_config(steps: int) -> Any:
    """Return the settings of DQN, with so many steps in an iteration."""
    return (
        DQNConfig()
        .training(
            lr=1e-3, train_batch_size=64, training_intensity=32, target_network_update_freq=500, hiddens=[128],
            dueling=False, num_steps_sampled_before_learning_starts=500, epsilon=[[0, 1.0], [5_000, 0.02]],
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=steps)
    )  # fmt: skip


CONFIGS: dict[str, Callable[[int], Any]] = {"PPO": ppo_config, "DQN": dqn_config}


def arguments_of(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments of the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=list(CONFIGS), default="PPO", help="the algorithm")
    parser.add_argument("--address", default="127.0.0.1", help="where it listens; beyond this machine with a token")
    parser.add_argument("--port", type=int, default=9900, help="the port; 0 for any that is free")
    parser.add_argument("--token", default=None, help="what clients must have; see docs/rllib-serving.md")
    parser.add_argument("--stop-reward", type=float, default=150.0, help="end when the mean return is this")
    parser.add_argument("--stop-iters", type=int, default=200, help="end after so many iterations")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps an iteration waits for")
    parser.add_argument("--checkpoint", default=None, help="a directory to keep what was learned in")
    return parser.parse_args(argv)


def announce(served: PolicyServerInput, listening: Callable[[str], None]) -> None:
    """Say where a server listens, once it does: that is with the first sample."""
    try:
        url = served.server.url
    except ConfigError:  # It was closed before.
        return
    sys.stdout.write(f"Serving a policy at {url}: run cartpole_client\n")
    sys.stdout.flush()
    listening(url)


def main(argv: Sequence[str] | None = None, listening: Callable[[str], None] = lambda url: None) -> float:
    """Serve and learn; return the mean return at the end.

    Args:
        argv: The words after the program's name; None for those of this process.
        listening: Is called with the URL of the server once it listens.
    """
    arguments = arguments_of(argv)
    served: list[PolicyServerInput] = []

    def serve(context: Any) -> PolicyServerInput:
        served.append(PolicyServerInput(context, arguments.address, arguments.port, token=arguments.token))
        return served[-1]

    config = (
        CONFIGS[arguments.run](arguments.steps)
        .environment(observation_space=SEEN, action_space=DONE)
        .offline_data(input_=serve)
        .env_runners(num_env_runners=0)
    )
    algorithm = config.build()
    reached = float("-inf")
    try:
        threading.Thread(target=announce, args=(served[-1], listening), daemon=True).start()
        for iteration in range(arguments.stop_iters):
            reached = algorithm.train()["episode_reward_mean"]
            sys.stdout.write(f"{iteration + 1}: mean return {reached:.2f} after {algorithm.env_steps_sampled} steps\n")
            if arguments.checkpoint is not None:
                algorithm.save(arguments.checkpoint)
            if reached >= arguments.stop_reward:
                break
    finally:
        algorithm.stop()
    return reached


if __name__ == "__main__":
    main()
