"""Metrics of one's own: how far the pole leans in each episode, in results and so in TensorBoard.

    python -m kernel_rllib.examples.custom_metrics_and_callbacks

Callbacks keep what they need in `episode.user_data`, and tell numbers by `episode.custom_metrics` and lists by
`episode.hist_data`. Results have the mean, the least and the greatest of each number.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.callbacks.callbacks import DefaultCallbacks
from kernel_rllib.examples.running import arguments_of, trained


class PoleAngles(DefaultCallbacks):
    """Reports how far the pole leans on average, and at most."""

    def on_episode_start(self, *, episode: Any, **kwargs: Any) -> None:
        """Begin a list of angles."""
        episode.user_data["angles"] = []

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        """Keep an angle."""
        episode.user_data["angles"].append(abs(float(episode.last_observation_for()[2])))

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        """Report the angles of an episode."""
        angles = episode.user_data["angles"]
        episode.custom_metrics["pole_angle"] = float(np.mean(angles))
        episode.hist_data["pole_angles"] = angles

    def on_train_result(self, *, result: dict[str, Any], **kwargs: Any) -> None:
        """Say what it has come to, and mark the result."""
        angle = result["custom_metrics"].get("pole_angle_mean")
        result["callback_ok"] = angle is not None
        if angle is not None:
            sys.stdout.write(f"the pole leans by {angle:.4f} on average\n")


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs=4)
        .training(train_batch_size=1024, minibatch_size=128, num_epochs=6, lr=1e-3, model={"fcnet_hiddens": [32]})
        .callbacks(PoleAngles)
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=150.0, iterations=100)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
