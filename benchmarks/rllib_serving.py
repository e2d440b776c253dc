"""Measure how many actions a policy server gives a client on one connection: `python -m benchmarks.rllib_serving`.

The server is a process of its own, with PPO's network of two layers of 256 for CartPole; nothing is learned meanwhile.
Goals: 2,000 actions a second with `inference_mode="remote"`, 10,000 with `"local"`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

GOALS = {"remote": 2_000, "local": 10_000}
STEPS = 200
"""How many steps an episode has."""


def serve(told: Connection) -> None:
    """Serve until the process is ended; tell the address first."""
    import gymnasium

    from kernel.rllib import PolicyServerInput, PPOConfig

    env = gymnasium.make("CartPole-v1")
    made: list[PolicyServerInput] = []

    def make(context: Any) -> PolicyServerInput:
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        made.append(PolicyServerInput(None, port=0, token="of the benchmark", **spaces))
        return made[-1]

    algorithm = PPOConfig().environment(make).env_runners(num_env_runners=0).build()
    sampler: Any = algorithm.runners.local.sampler  # type: ignore[union-attr]
    sampler.envs.begin()
    told.send(made[-1].server.url)
    while True:
        sampler.collect(1000)


def actions_per_second(url: str, mode: str, seconds: float) -> float:
    """Play for so long, and return how many actions there were a second."""
    from kernel.rllib import PolicyClient

    client = PolicyClient(url, mode, update_interval=1e9, token="of the benchmark")
    observation = np.zeros(4, np.float32)
    made, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        episode = client.start_episode()
        for _ in range(STEPS):
            client.get_action(episode, observation)
            client.log_returns(episode, 1.0)
        client.end_episode(episode, observation)
        made += STEPS
    found = made / (time.perf_counter() - began)
    client.close()
    return found


def main() -> None:
    """Print the medians of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each takes (default: 2)")
    given = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    url = here.recv()
    for mode, goal in GOALS.items():
        actions_per_second(url, mode, 0.5)
        found = statistics.median(actions_per_second(url, mode, given.seconds) for _ in range(given.rounds))
        print(f"{mode:8} {found:9,.0f} actions a second (goal: {goal:,})")
    server.terminate()
    server.join()


if __name__ == "__main__":
    main()
