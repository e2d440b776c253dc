"""An experiment: an algorithm in an environment, its settings, when it ends, and what a good one reaches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean

OF_TUNE = frozenset(
    {
        "export_formats", "loggers", "max_failures", "repeat", "resources_per_trial", "scheduler", "search_alg",
        "sync_function", "sync_on_checkpoint", "trial_name_creator", "trial_resources", "upload_dir",
    }
)  # fmt: skip
"""Keys of experiments that Tune acts on, and nothing here."""


@dataclass(frozen=True)
class Passing:
    """The goal of an experiment: of `seeds` seeds, `needed` reach a return within some steps.

    Attributes:
        mean_return: The mean return that 100 episodes must reach, played after training by the best known actions.
        steps: The number of steps of the environment before.
        seeds: The number of seeds.
        needed: The number of seeds that must reach it.
    """

    mean_return: float
    steps: int
    seeds: int = 5
    needed: int = 4


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        name: The name of the experiment and of its directory.
        run: The algorithm's name.
        env: The environment, as `AlgorithmConfig.environment` takes it.
        config: The settings, of any generation.
        stop: Metrics, and the value at which the run ends when one of them reaches it.
        checkpoint_freq: The number of iterations between checkpoints; 0 for none.
        checkpoint_at_end: Whether one is written when it ends.
        keep_checkpoints_num: The number of checkpoints that are kept, the last ones or the best; None for all.
        checkpoint_score_attr: By which metric the best ones are found, with `min-` before it where less is better.
        num_samples: The number of runs of each combination of settings.
        local_dir: The directory that the experiment's directory is in; "" for the usual one.
        restore: The checkpoint that it goes on from.
        passing: The goal of the experiment.
        source: The file that it is from.
    """

    name: str
    run: str
    env: Any = None
    config: dict[str, Any] = field(default_factory=dict)
    stop: dict[str, Any] = field(default_factory=dict)
    checkpoint_freq: int = 0
    checkpoint_at_end: bool = True
    keep_checkpoints_num: int | None = None
    checkpoint_score_attr: str | None = None
    num_samples: int = 1
    local_dir: str = ""
    restore: str = ""
    passing: Passing | None = None
    source: str = ""

    def with_(self, **changes: Any) -> Experiment:
        """Return a copy with other values."""
        return replace(self, **changes)


def experiment_of(name: str, described: Any, source: str = "") -> Experiment:
    """Return the experiment that a mapping describes, under the keys that files of RLlib have.

    Raises:
        ConfigError: If it is no mapping, a key is not known, or a value can't be.
    """
    where = f"{source}: experiment {name!r}" if source else f"experiment {name!r}"
    if not isinstance(described, Mapping):
        raise ConfigError(f"{where} is {described!r}, but must be a mapping with the keys run, env, config and stop")
    given = dict(described)
    if "storage_path" in given:
        given["local_dir"] = given.pop("storage_path")
    passing = _passing(given.pop("pass", None), where)
    for key in given:
        if key in OF_TUNE:
            raise ConfigError(
                f"{where} has the key {key!r}, on which only Tune acts; run it by "
                "`kernel.tune.run_experiments`, or take the key out"
            )
        if key not in _KINDS:
            raise ConfigError(
                f"{where} has the key {key!r}, which is not known{did_you_mean(key, _KINDS)}; there are "
                f"{', '.join(sorted([*_KINDS, 'pass']))}"
            )
        kind, words = _KINDS[key]
        if not isinstance(given[key], kind) or (isinstance(given[key], bool) and bool not in kind):
            raise ConfigError(f"{where}: {key} is {given[key]!r}, but must be {words}")
    if "run" not in given:
        raise ConfigError(f"{where} says no algorithm: it needs a line such as `run: PPO`")
    for key in ("config", "stop"):
        given[key] = dict(given.get(key) or {})
    return Experiment(name=name, passing=passing, source=source, **given)


_NUMBER = (int,), "a whole number"
_TEXT = (str,), "a text"
_MAPPING = (Mapping, type(None)), "a mapping"
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "run": _TEXT,
    "env": ((str, type, Mapping, type(None)), "a name, a dotted path or a grid_search of them"),
    "config": _MAPPING,
    "stop": _MAPPING,
    "checkpoint_freq": _NUMBER,
    "checkpoint_at_end": ((bool,), "true or false"),
    "keep_checkpoints_num": ((int, type(None)), "a whole number"),
    "checkpoint_score_attr": ((str, type(None)), "the name of a metric"),
    "num_samples": _NUMBER,
    "local_dir": _TEXT,
    "restore": _TEXT,
}


def _passing(given: Any, where: str) -> Passing | None:
    if given is None:
        return None
    names = {"return": "mean_return", "steps": "steps", "seeds": "seeds", "needed": "needed"}
    if not isinstance(given, Mapping) or not {"return", "steps"} <= given.keys() <= names.keys():
        raise ConfigError(f"{where}: pass is {given!r}, but must be a mapping with return, steps, seeds and needed")
    return Passing(**{names[key]: value for key, value in given.items()})
