"""PPO whose policy is drawn to what was recorded, too: a model adds a loss of its own to that of the algorithm.

    python -m kernel_rllib.examples.custom_loss

The model reads a batch of recorded steps whenever a loss is computed (`JsonReader.next()`), and adds how unlikely it
thinks their actions. Networks of torch do the same by `custom_loss(policy_loss, loss_inputs)` of a `TorchModelV2`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.data import columns
from kernel_rllib.examples.running import arguments_of, trained
from kernel_rllib.examples.saving_experiences import write
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.modules.module import Inputs, Outputs, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.offline.json_reader import JsonReader


class ImitatingModel(ActorCritic):
    """A policy with values that imitates recorded steps beside what it is taught."""

    def __init__(self, observation_shape: tuple[int, ...], num_outputs: int, path: str, share: float = 0.1) -> None:
        """Build it.

        Args:
            observation_shape: The shape of an observation.
            num_outputs: How many actions there are.
            path: Where the files of recorded steps are.
            share: How much the loss of imitation counts.
        """
        super().__init__(observation_shape[0], num_outputs, options=ActorCriticOptions(hidden=(32,)))
        self.path, self.share = path, share

    @cached_property
    def reader(self) -> JsonReader:
        """The reader, which is made where losses are computed."""
        return JsonReader(self.path)

    def own_loss(self, nn: Ops, parameters: Parameters, total: Any, batch: Inputs) -> tuple[Any, Outputs]:
        """Return the loss of the algorithm with that of imitation, and the latter as a metric."""
        recorded: Any = self.reader.next()
        outputs = self.train(nn, parameters, {columns.OBS: np.asarray(recorded[columns.OBS], np.float32)})
        log_probs = nn.log_softmax_at(outputs[columns.ACTION_DIST_INPUTS], recorded[columns.ACTIONS])
        imitation = -nn.mean(log_probs)
        return total + self.share * imitation, {"imitation_loss": imitation}


def make_config(folder: str, seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs=4)
        .training(train_batch_size=512, minibatch_size=128, num_epochs=6, lr=1e-3)
        .training(model={"custom_model": ImitatingModel, "custom_model_config": {"path": folder}})
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=150.0, iterations=100)
    with tempfile.TemporaryDirectory() as folder:
        write(folder, 30, arguments.seed or 0)
        return trained(make_config(folder, arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
