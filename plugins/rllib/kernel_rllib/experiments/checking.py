"""Checks of experiments: whether training reaches what it says that it does."""

from __future__ import annotations

import time
from typing import NamedTuple

from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.training.registry import algorithm_class

EVALUATION = {"evaluation_duration": 100}
EVALUATION_CONFIG = {"explore": False, "num_envs_per_env_runner": 10, "batch_mode": "complete_episodes"}
"""How episodes are played after training, where an experiment says nothing else of it."""


class Check(NamedTuple):
    """The result of one seed of an experiment: the mean return after training, the steps, the seconds that it took."""

    seed: int
    mean_return: float
    steps: int
    seconds: float


def checked(experiment: Experiment, seed: int) -> Check:
    """Train as many steps as the experiment says, then play 100 episodes by the best known actions.

    Steps are counted, not seconds, and the same seed gives the same return on the same kind of processor.

    Raises:
        ConfigError: If the experiment has no `pass`.
    """
    if experiment.passing is None:
        raise ConfigError(f"experiment {experiment.name!r} says nowhere what it has to reach: it has no `pass`")
    began = time.perf_counter()
    settings = {**experiment.config, "env": experiment.env, "seed": seed, **EVALUATION}
    given = experiment.config.get("evaluation_config") or {}
    settings["evaluation_config"] = {**EVALUATION_CONFIG, **given}
    algorithm = algorithm_class(experiment.run)(settings)
    try:
        while algorithm.env_steps_sampled < experiment.passing.steps:
            algorithm.train()
        reached, steps = algorithm.evaluate()["episode_reward_mean"], algorithm.env_steps_sampled
    finally:
        algorithm.stop()
    return Check(seed, reached, steps, time.perf_counter() - began)


def judged(experiment: Experiment, checks: list[Check]) -> tuple[bool, list[str]]:
    """Return whether enough seeds have reached what they had to, and two lines for people."""
    passing = experiment.passing
    assert passing is not None
    good = sum(check.mean_return >= passing.mean_return for check in checks)
    is_enough = good * passing.seeds >= passing.needed * len(checks)
    word = "pass" if is_enough else "FAIL"
    returns = " ".join(f"{check.mean_return:.1f}" for check in checks)
    steps, seconds = max(check.steps for check in checks), max(check.seconds for check in checks)
    return is_enough, [
        f"{word}  {experiment.name}: {good} of {len(checks)} seeds reach {passing.mean_return:g}",
        f"      {passing.needed} of {passing.seeds} must; {steps:,} steps, {seconds:.0f} s; "
        f"seeds {checks[0].seed} on: {returns}",
    ]
