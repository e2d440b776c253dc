"""How well algorithms learn: a row for each, with a threshold that its seeds have to reach.

python -m benchmarks.rllib_learning [NAMES] [--seeds N] [--first SEED] [--jobs N]

A seed passes if the mean return of 100 episodes, played after training by the best known actions, reaches the
threshold. Names are those of rows, or what they begin with; all rows without any. Steps are counted, not seconds, and
the same seed gives the same returns on the same kind of processor.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

EVALUATION = {
    "evaluation_duration": 100,
    "evaluation_config": {"explore": False, "num_envs_per_env_runner": 10, "batch_mode": "complete_episodes"},
}


@dataclass(frozen=True)
class Row:
    """One algorithm in one environment.

    Attributes:
        name: What the row is called.
        algorithm: The module of the algorithm, and its class.
        env: The environment: a name of gymnasium, or the module and class of one of ours.
        settings: The settings, as of `AlgorithmConfig.from_dict`.
        steps: How many steps the environment makes.
        threshold: What the mean return has to reach.
        needed: Of how many seeds how many must reach it.
    """

    name: str
    algorithm: str
    env: str
    settings: dict[str, Any]
    steps: int
    threshold: float
    needed: tuple[int, int] = (4, 5)


NARROW = {"fcnet_hiddens": [64, 64], "fcnet_activation": "tanh"}
ALONE = {"num_env_runners": 0, "min_time_s_per_iteration": 0}

# Settings of Stable-Baselines3's zoo, where its name for them is in the comment.
PPO_COMMON = {
    **ALONE, "model": {**NARROW, "vf_share_layers": False}, "clip_param": 0.2, "vf_clip_param": 1e9,
    "vf_loss_coeff": 0.5, "grad_clip": 0.5, "use_kl_loss": False, "entropy_coeff": 0.0, "optimizer": {"epsilon": 1e-5},
}  # fmt: skip
PPO_CART_POLE = {  # ppo.yml, CartPole-v1, with a constant clip
    **PPO_COMMON, "num_envs": 8, "train_batch_size": 256, "minibatch_size": 256, "num_epochs": 20, "lambda": 0.8,
    "gamma": 0.98, "lr": [[0, 1e-3], [100_000, 0.0]],
}  # fmt: skip


def q_learning(pace: tuple[int, float], exploration: tuple[float, float], **more: Any) -> dict[str, Any]:
    """Return settings of Q-learning with one lane and networks of 256x256.

    Args:
        pace: How many steps make a fragment, and how many steps are learned from for each that is sampled.
        exploration: After how many steps epsilon is at its least, and how much that is.
        more: Further settings.
    """
    (fragment, intensity), (timesteps, least) = pace, exploration
    return {
        **ALONE,
        "rollout_fragment_length": fragment,
        "training_intensity": intensity,
        "epsilon": [[0, 1.0], [timesteps, least]],
        "grad_clip": 10.0,
        "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
        **more,
    }


DISTRIBUTION = {"num_atoms": 51, "v_min": 0.0, "v_max": 100.0}
"""Of returns of CartPole, which are 100 at most when they are discounted by 0.99."""
RAINBOW = {"num_atoms": 51, "noisy": True, "n_step": 3, "double_q": True, "dueling": True, "epsilon": 0.0}


def plain(capacity: int) -> dict[str, Any]:
    """Return what leaves every part of Rainbow out, as tables of plain DQN do, with a buffer of this size."""
    buffer = {"type": "EpisodeReplayBuffer", "capacity": capacity}
    return {"double_q": False, "dueling": False, "hiddens": [], "replay_buffer_config": buffer}


Q_CART_POLE = {
    "lr": 2.3e-3, "train_batch_size": 64, "target_network_update_freq": 10,
    "num_steps_sampled_before_learning_starts": 1000,
}  # fmt: skip
HEADS = {"model": {"fcnet_hiddens": [256], "fcnet_activation": "relu"}, "hiddens": [256]}
"""As deep as 256x256, with the second layer in the heads, where noise is."""

ROWS = (
    Row("PPO CartPole-v1", "ppo:PPO", "CartPole-v1", PPO_CART_POLE, 100_000, 475, (5, 5)),
    Row(
        "PPO + LSTM, CartPole without velocities", "ppo:PPO", "cart_pole:StatelessCartPole",
        {**PPO_CART_POLE, "model": {"fcnet_hiddens": [64], "use_lstm": True, "lstm_cell_size": 64, "max_seq_len": 32}},
        100_000, 450,
    ),
    Row(
        "SimpleQ CartPole-v1", "simple_q:SimpleQ", "CartPole-v1",
        q_learning((256, 32), (8_000, 0.04), replay_buffer_config={"capacity": 100_000}, **Q_CART_POLE), 50_000, 475,
    ),
    Row(
        "DQN CartPole-v1", "dqn:DQN", "CartPole-v1",
        q_learning((256, 32), (8_000, 0.04), **Q_CART_POLE, **plain(100_000)), 50_000, 475,
    ),
    Row(
        "DQN MountainCar-v0", "dqn:DQN", "MountainCar-v0",
        q_learning(
            (16, 64), (24_000, 0.07), lr=4e-3, gamma=0.98, train_batch_size=128, target_network_update_freq=600,
            num_steps_sampled_before_learning_starts=1000, **plain(10_000),
        ),
        120_000, -120,
    ),
    Row(
        "DQN Acrobot-v1", "dqn:DQN", "Acrobot-v1",
        q_learning(
            (4, 128), (12_000, 0.1), lr=6.3e-4, train_batch_size=128, target_network_update_freq=250,
            num_steps_sampled_before_learning_starts=128, **plain(50_000),
        ),
        100_000, -85,
    ),
    Row(
        "C51 CartPole-v1", "dqn:DQN", "CartPole-v1",
        q_learning((256, 32), (8_000, 0.04), **{**Q_CART_POLE, "lr": 5e-4}, **plain(100_000), **DISTRIBUTION),
        50_000, 450,
    ),
    Row(
        "Noisy DQN CartPole-v1", "dqn:DQN", "CartPole-v1",
        q_learning(
            (256, 32), (0, 0.0), **Q_CART_POLE, **{**plain(100_000), **HEADS, "noisy": True, "epsilon": 0.0}
        ),
        50_000, 450,
    ),
    Row(
        "Rainbow CartPole-v1", "dqn:DQN", "CartPole-v1",
        q_learning(
            (256, 32), (0, 0.0), **{**Q_CART_POLE, "lr": 5e-4}, **{**DISTRIBUTION, **HEADS, **RAINBOW},
            replay_buffer_config={"capacity": 100_000, "final_beta": 1.0, "beta_annealing_timesteps": 50_000},
        ),
        50_000, 475,
    ),
)  # fmt: skip


def chosen(names: Iterable[str]) -> list[Row]:
    """Return the rows whose names begin with one of these, or all where there are none."""
    names = tuple(name.lower() for name in names)
    return [row for row in ROWS if not names or row.name.lower().startswith(names)]


def trained(row: Row, seed: int) -> tuple[float, int, float]:
    """Return the mean return after training, the steps that were made, and the seconds it took."""
    began = time.perf_counter()
    module, name = row.algorithm.split(":")
    algorithm_class = getattr(importlib.import_module(f"kernel_rllib.algorithms.{module}"), name)
    algorithm = algorithm_class({"env": environment(row.env), "seed": seed, **EVALUATION, **row.settings})
    while algorithm.env_steps_sampled < row.steps:
        algorithm.train()
    reached, steps = algorithm.evaluate()["episode_reward_mean"], algorithm.env_steps_sampled
    algorithm.stop()
    return reached, steps, time.perf_counter() - began


def environment(name: str) -> Any:
    """Return what the settings name an environment by."""
    if ":" not in name:
        return name
    module, _, kind = name.partition(":")
    return getattr(importlib.import_module(f"kernel_rllib.envs.games.{module}"), kind)


def report(rows: list[Row], seeds: range, jobs: int, show: Callable[[str], None]) -> bool:
    """Run all seeds of all rows, show a line for each row, and return whether all rows passed."""
    passed = True
    with ProcessPoolExecutor(jobs) as pool:
        for row in rows:
            found = list(pool.map(partial(trained, row), seeds))
            good = sum(reached >= row.threshold for reached, _, _ in found)
            needed, of = row.needed
            is_enough = good * of >= needed * len(found)
            passed &= is_enough
            show(f"{'pass' if is_enough else 'FAIL'}  {row.name}: {good} of {len(found)} seeds reach {row.threshold}")
            returns = " ".join(f"{reached:.1f}" for reached, _, _ in found)
            steps, seconds = max(steps for _, steps, _ in found), max(seconds for *_, seconds in found)
            show(f"      {needed} of {of} must; {steps:,} steps, {seconds:.0f} s; seeds {seeds.start} on: {returns}")
    return passed


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows, or what their names begin with")
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="how many seeds run at the same time")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    if not report(chosen(given.names), seeds, given.jobs, lambda line: print(line, flush=True)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
