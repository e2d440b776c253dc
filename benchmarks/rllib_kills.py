"""Kills of runners, and of shards of replay, while algorithms train: do runs end as those that nobody disturbed?

python -m benchmarks.rllib_kills [--kills 20] [--only WORD] [--seed N]

Each run has two runners, and a thread that ends one of them with SIGKILL at random moments, until there were so many
kills. In the mode `exact` the parameters must be, bit for bit, those of a run without runners; in the mode `recreate`
the counts of steps must be right. Ape-X has two shards of replay besides, which are killed as well: what these held and
what was lost with them must be what was sampled. No process of a runner or shard may be left.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_rllib.algorithms.apex_dqn import ApexDQNConfig
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.callbacks import RLlibCallback
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.data.batch import Batch
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.training.algorithm import Algorithm

import kernel

STEPS = 256
"""Steps of the environments in each iteration."""
RUNNERS, SHARDS = ("1", "2"), ("shard 0", "shard 1")
"""The names of the files that have their processes."""
LONGEST = 600.0
"""Seconds after which a run that has not had its kills counts as stuck."""


class WritesProcess(RLlibCallback):
    """Writes the process of each runner into a file, whose name is the runner's number."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def on_environment_created(self, *, env_runner: Any, **kwargs: Any) -> None:
        """Write it, in one go."""
        unfinished = self.folder / f".{env_runner.worker_index}"
        unfinished.write_text(str(os.getpid()), encoding="ascii")
        unfinished.rename(self.folder / str(env_runner.worker_index))


class Killer(threading.Thread):
    """Ends runners at random moments, each process once, until there were enough."""

    def __init__(self, folder: Path, kills: int, stream: random.Random, names: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self.killed: list[int] = []
        self.is_enough = threading.Event()
        self._folder, self._kills, self._stream, self._names = folder, kills, stream, names

    def run(self) -> None:
        """Kill."""
        while len(self.killed) < self._kills:
            time.sleep(self._stream.uniform(0.0, 0.6))
            process = int((self._folder / str(self._stream.choice(self._names))).read_text(encoding="ascii"))
            if process not in self.killed:
                os.kill(process, signal.SIGKILL)
                self.killed.append(process)
        self.is_enough.set()


class WrittenReplay(PrioritizedReplay):
    """Prioritised replay that writes its process into a file when it is first added to."""

    def __init__(self, capacity: int, folder: str) -> None:
        super().__init__(capacity)
        self._folder: Path | None = Path(folder)

    def add(self, batch: Batch, errors: Array | None = None) -> None:
        """Write the process, in place of a shard's that is there no more; keep the rows."""
        if self._folder is not None:
            unfinished = self._folder / f".{os.getpid()}"
            unfinished.write_text(str(os.getpid()), encoding="ascii")
            place = next(each for each in SHARDS if not self._is_held(each))
            unfinished.rename(self._folder / place)
            self._folder = None
        super().add(batch, errors)

    def _is_held(self, name: str) -> bool:
        assert self._folder is not None
        written = self._folder / name
        return written.exists() and is_there(int(written.read_text(encoding="ascii")))


def config_of(name: str) -> AlgorithmConfig:
    """Return small settings of an algorithm, with four lanes."""
    model = {"fcnet_hiddens": [16]}
    made: AlgorithmConfig
    if name == "ApexDQN":
        made = ApexDQNConfig().training(
            train_batch_size=64,
            model=model,
            optimizer={"num_replay_buffer_shards": len(SHARDS)},
            num_steps_sampled_before_learning_starts=256,
        )
        made.env_runners(rollout_fragment_length=8).reporting(
            min_sample_timesteps_per_iteration=STEPS, min_time_s_per_iteration=0
        )
    elif name == "PPO":
        made = PPOConfig().training(train_batch_size=STEPS, minibatch_size=64, num_epochs=2, model=model)
    else:
        made = DQNConfig().training(
            train_batch_size=32,
            model=model,
            num_steps_sampled_before_learning_starts=64,
            target_network_update_freq=128,
        )
        made.env_runners(rollout_fragment_length=4).reporting(
            min_sample_timesteps_per_iteration=STEPS, min_time_s_per_iteration=0
        )
    return made.environment("CartPole-v1").env_runners(num_envs=4, num_env_runners=0).debugging(seed=3)


def hash_of(algorithm: Any) -> str:
    """Return a hash of all parameters."""
    return hashlib.sha256(algorithm.learner.weights.tobytes()).hexdigest()[:16]


def disturbed(name: str, mode: Any, kills: int, seed: int, folder: Path) -> tuple[Any, int, list[int]]:
    """Train until there were so many kills; return the algorithm, how many iterations it made, and who was killed."""
    made = config_of(name).env_runners(num_env_runners=2, num_cpus_per_env_runner=0)
    made.fault_tolerance(recovery=mode).callbacks(lambda: WritesProcess(str(folder)))
    names = RUNNERS
    if name == "ApexDQN":
        made.training(replay_buffer_config={"type": WrittenReplay, "capacity": 10**6, "folder": str(folder)})
        names = (*RUNNERS, *SHARDS)
    algorithm: Algorithm = made.build()
    while not all((folder / each).exists() for each in names):
        algorithm.train()
    killer = Killer(folder, kills, random.Random(f"{name} {mode} {seed}"), names)
    killer.start()
    began, iterations = time.monotonic(), 1
    while not killer.is_enough.is_set() and killer.is_alive():
        algorithm.train()
        iterations += 1
        if time.monotonic() - began > LONGEST:
            raise SystemExit(f"{name} {mode}: {len(killer.killed)} of {kills} kills after {LONGEST:.0f} s")
    if not killer.is_enough.is_set():
        raise SystemExit(f"{name} {mode}: the thread that kills has failed")
    algorithm.train()
    return algorithm, iterations + 1, killer.killed


def rows_of(algorithm: Any) -> int | None:
    """Return how many rows shards hold and have lost; None where there are none."""
    shards = getattr(algorithm, "shards", None)
    if shards is None:
        return None
    shards.wait()
    return int(shards.rows("default_policy") + shards.rows_lost)


def is_there(process: int) -> bool:
    """Return whether there is a process, and it is not one that only waits to be collected."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text(encoding="ascii")
    except OSError:
        return False


def row(name: str, mode: str, kills: int, seed: int) -> bool:
    """Run an algorithm with kills and without, print what differs, and return whether all is as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        algorithm, iterations, killed = disturbed(name, mode, kills, seed, Path(folder))
        last = [int(each.read_text(encoding="ascii")) for each in Path(folder).iterdir()]
        steps, found = algorithm.env_steps_sampled, hash_of(algorithm)
        kept = rows_of(algorithm)
        algorithm.stop()
        seconds = time.monotonic() - began
    problems = []
    expected = iterations * STEPS if kept is None else kept
    if steps != expected:
        problems.append(f"{steps} steps in place of {expected}")
    if mode == "exact":
        plain = config_of(name).build()
        for _ in range(iterations):
            plain.train()
        if hash_of(plain) != found:
            problems.append(f"parameters {found} in place of {hash_of(plain)}")
    deadline = time.monotonic() + 20
    while any(map(is_there, [*killed, *last])) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [process for process in [*killed, *last] if is_there(process)]
    if left:
        problems.append(f"processes {left} are left")
    print(f"{name:7} {mode:9} {len(killed):3} kills, {iterations:4} iterations, {steps:7} steps, {seconds:5.0f} s, "
          f"parameters {found}: {'; '.join(problems) or 'as without kills'}", flush=True)  # fmt: skip
    return not problems


def main() -> int:
    """Make the table; return 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="how many in each run")
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    logging.getLogger("kernel.rllib").setLevel(logging.ERROR)
    rows = [(name, mode) for name in ("PPO", "DQN") for mode in ("exact", "recreate")] + [("ApexDQN", "recreate")]
    with kernel.init(num_cpus=4, log_to_driver=False):
        good = [row(*each, options.kills, options.seed) for each in rows if options.only in " ".join(each)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
