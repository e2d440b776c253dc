"""Writes experience of a program that is no part of the library, as files that any algorithm reads.

    python -m kernel_rllib.examples.saving_experiences /tmp/demo-out --episodes 100

Episodes of CartPole are played by a rule: push to where the pole falls, and now and then to any side. How likely each
push was is written as well, so that estimators can tell what another policy is worth.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import gymnasium
import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.first_generation.sample_batch_builder import SampleBatchBuilder
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.spaces.preprocessors import get_preprocessor

RANDOM = 0.2
"""The share of pushes to any side."""


def chances(observation: Array) -> Array:
    """Return how likely each push is: that to where the pole falls is the likelier one."""
    falls_right = int(observation[2] + 0.5 * observation[3] > 0)
    found = np.full(2, RANDOM / 2)
    found[falls_right] += 1 - RANDOM
    return found


def episode(env: gymnasium.Env[Array, int], number: int, random: np.random.Generator) -> Batch:
    """Play an episode, and return its steps."""
    rows, preprocessor = SampleBatchBuilder(), get_preprocessor(env.observation_space)(env.observation_space)
    observation, _ = env.reset(seed=int(random.integers(2**31)))
    before, rewarded, ended, step = 0, 0.0, False, 0
    while not ended:
        likely = chances(observation)
        action = int(random.random() < likely[1])
        following, reward, terminated, truncated, _ = env.step(action)
        rows.add_values(
            t=step,
            eps_id=number,
            agent_index=0,
            obs=preprocessor.transform(observation),
            actions=action,
            action_prob=likely[action],
            rewards=reward,
            prev_actions=before,
            prev_rewards=rewarded,
            terminateds=terminated,
            truncateds=truncated,
            new_obs=preprocessor.transform(following),
        )
        observation, before, rewarded = following, action, float(reward)
        ended, step = terminated or truncated, step + 1
    return rows.build_and_reset()


def write(path: str, episodes: int, seed: int = 0) -> int:
    """Write episodes into a folder, and return how many steps they have."""
    writer, random = JsonWriter(path), np.random.default_rng(seed)
    env, steps = gymnasium.make("CartPole-v1"), 0
    for number in range(episodes):
        batch = episode(env, number, random)
        writer.write(batch)
        steps += batch.count
    writer.close()
    env.close()
    return steps


def main(argv: Sequence[str] | None = None) -> int:
    """Write, and return how many steps there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the folder")
    parser.add_argument("--episodes", type=int, default=100, help="how many are played")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all of it")
    arguments = parser.parse_args(argv)
    steps = write(arguments.path, arguments.episodes, arguments.seed)
    sys.stdout.write(f"{steps} steps of {arguments.episodes} episodes are in {arguments.path}\n")
    return steps


if __name__ == "__main__":
    main(sys.argv[1:])
