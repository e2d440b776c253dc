"""How much memory a trainer and two runners take, and whether it grows.

python -m benchmarks.rllib_memory [--minutes 3] [--only WORD]

Memory is what belongs to each process alone, and its share of what it has in common with others (the kernel's PSS).
Growth is the slope of a line through the measurements of the second half. Goals: 150 MB in all, and less than 1 MB
a minute more.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.runners.env_runner import EnvRunner

import kernel

MEGABYTE = 1e6
MOST = 150.0
"""Megabytes of all processes."""
MOST_A_MINUTE = 1.0


def config_of(name: str) -> AlgorithmConfig:
    """Return settings of an algorithm with two runners."""
    made: AlgorithmConfig
    if name == "PPO":
        made = PPOConfig().training(train_batch_size=1024, minibatch_size=256, num_epochs=4)
    else:
        made = DQNConfig().training(replay_buffer_config={"capacity": 10_000})
        made.reporting(min_sample_timesteps_per_iteration=256, min_time_s_per_iteration=0)
    made.environment("CartPole-v1").training(model={"fcnet_hiddens": [64, 64]}).debugging(seed=0)
    return made.env_runners(num_env_runners=2, num_envs=8, num_cpus_per_env_runner=0)


def process_of(runner: EnvRunner) -> int:
    """Return the process of a runner."""
    return os.getpid()


def memory_of(process: int) -> float:
    """Return the megabytes of a process."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    (kilobytes,) = (int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 / MEGABYTE


def measured(algorithm: Any, seconds: float) -> tuple[list[float], list[float]]:
    """Train for so many seconds; return moments in minutes, and the megabytes of all processes at each."""
    processes = [os.getpid(), *algorithm.runners.foreach(process_of)]
    moments: list[float] = []
    megabytes: list[float] = []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        algorithm.train()
        moments.append((time.monotonic() - began) / 60)
        megabytes.append(sum(map(memory_of, processes)))
    return moments, megabytes


def row(name: str, minutes: float) -> bool:
    """Measure an algorithm, print what was found, and return whether it reaches the goals."""
    algorithm = config_of(name).build()
    moments, megabytes = measured(algorithm, minutes * 60)
    half = len(moments) // 2
    slope = float(np.polyfit(moments[half:], megabytes[half:], 1)[0])
    steps = algorithm.env_steps_sampled
    algorithm.stop()
    print(f"{name:4} {megabytes[half]:6.1f} MB after half, {megabytes[-1]:6.1f} MB at the end, {slope:+.3f} MB a "
          f"minute, {len(moments)} iterations, {steps} steps", flush=True)  # fmt: skip
    return max(megabytes) <= MOST and slope < MOST_A_MINUTE


def main() -> int:
    """Measure; return 1 where a goal is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0, help="of each algorithm")
    parser.add_argument("--only", default="", help="algorithms whose name has this word")
    options = parser.parse_args()
    with kernel.init(num_cpus=4, log_to_driver=False):
        good = [row(name, options.minutes) for name in ("PPO", "DQN") if options.only in name]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
