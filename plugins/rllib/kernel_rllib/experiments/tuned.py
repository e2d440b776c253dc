"""Experiments that ship: settings that are known to learn, one file for each algorithm in an environment."""

from __future__ import annotations

import fnmatch
from pathlib import Path

from kernel_rllib.envs.gymnasium_names import RENAMED
from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.files import read_experiments
from kernel_rllib.nearest import did_you_mean

FOLDER = Path(__file__).resolve().parent.parent / "tuned"


def tuned_names(pattern: str = "") -> list[str]:
    """Return the names of tuned experiments, sorted: those that have `pattern` in them, or match it with * and ?."""
    wanted = pattern.lower() if any(sign in pattern for sign in "*?[") else f"*{pattern.lower()}*"
    return sorted(file.stem for file in FOLDER.glob("*.yaml") if fnmatch.fnmatch(file.stem, wanted))


def tuned_file(name: str) -> Path:
    """Return the file of a tuned experiment. Raises ConfigError that tells the nearest where there is none."""
    name = name.removesuffix(".yaml")
    if name not in tuned_names():
        near = did_you_mean(name, tuned_names())
        raise ConfigError(f"there is no example {name!r}{near}; `rllib example list` shows all")
    return FOLDER / f"{name}.yaml"


def tuned_experiment(name: str) -> Experiment:
    """Return a tuned experiment. Raises ConfigError where there is none of that name."""
    return read_experiments(tuned_file(name))[0]


def tuned_for(algorithm: str, env: object) -> Experiment | None:
    """Return the tuned experiment of an algorithm in an environment, or None where there is none.

    It is the one whose file is named after both. Others for the same pair show variants, such as `rainbow-cartpole-v1`.
    """
    if not isinstance(env, str):
        return None
    for name in (env, RENAMED.get(env, (env, ""))[0]):
        file = FOLDER / f"{algorithm}-{name}.yaml".lower().replace("/", "-")
        if file.is_file():
            return read_experiments(file)[0]
    return None
