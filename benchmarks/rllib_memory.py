"""How much memory a trainer and two runners take, and whether it grows.

python -m benchmarks.rllib_memory [--minutes 3] [--only WORD]

Memory is what belongs to each process alone, and its share of what it has in common with others (the kernel's PSS).
Growth is the slope of a line through what belongs to the processes alone (their shares change when others begin and
end), over the second half, or from the sixth minute on. Goals: 150 MB in all, and less than 0.1 MB a minute more; runs
of less than 15 minutes are too short for that, and may have 1 MB. A process of kernel remembers its last 20,000 calls,
which takes some 6 MB: runners have answered so many before anything is measured.
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
MOST_A_MINUTE = 0.1
MOST_A_MINUTE_SHORT = 1.0
"""In a run of less than 15 minutes."""
CALLS_REMEMBERED = 20_000
WARM_MINUTES = 5.0
"""Growth in these is not looked at, where a run is longer than twice as long."""


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


def memory_of(process: int) -> tuple[float, float]:
    """Return the megabytes of a process, with its share of what it has in common with others, and without."""
    kilobytes = {"Pss:": 0, "Private_Clean:": 0, "Private_Dirty:": 0}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(" ")
        if name in kilobytes:
            kilobytes[name] = int(rest.split()[0])
    pss, *private = (each * 1024 / MEGABYTE for each in kilobytes.values())
    return pss, sum(private)


def fill_traces(algorithm: Any) -> None:
    """Let each runner have answered as many calls as its process remembers: until then each call takes memory."""
    for _, handle in algorithm.runners.actors():
        for _ in range(CALLS_REMEMBERED // 1000):
            kernel.get([handle.ready.remote() for _ in range(1000)])


def measured(algorithm: Any, seconds: float) -> tuple[Any, Any]:
    """Train for so many seconds; return moments in minutes [N], and the memory of processes at each [N, processes, 2].

    The first process is the trainer.
    """
    fill_traces(algorithm)
    processes = [os.getpid(), *algorithm.runners.foreach(process_of)]
    moments: list[float] = []
    megabytes: list[list[tuple[float, float]]] = []
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        algorithm.train()
        moments.append((time.monotonic() - began) / 60)
        megabytes.append([*map(memory_of, processes)])
    return np.array(moments), np.array(megabytes)


def row(name: str, minutes: float) -> bool:
    """Measure an algorithm, print what was found, and return whether it reaches the goals."""
    algorithm = config_of(name).build()
    moments, megabytes = measured(algorithm, minutes * 60)
    all_of_them = megabytes[:, :, 0].sum(axis=1)
    later = moments >= min(WARM_MINUTES, minutes / 2)
    slopes = np.polyfit(moments[later], megabytes[later, :, 1], 1)[0]
    steps = algorithm.env_steps_sampled
    algorithm.stop()
    print(f"{name:4} {all_of_them.max():6.1f} MB at most, {all_of_them[-1]:6.1f} MB at the end, {slopes.sum():+.3f} MB "
          f"a minute (trainer {slopes[0]:+.3f}, runners {' '.join(f'{each:+.3f}' for each in slopes[1:])}), "
          f"{len(moments)} iterations, {steps} steps", flush=True)  # fmt: skip
    return bool(all_of_them.max() <= MOST and slopes.sum() < (MOST_A_MINUTE if minutes >= 15 else MOST_A_MINUTE_SHORT))


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
