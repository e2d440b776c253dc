"""Environments by the names of gymnasium, older names among them, and the packages that bring more names."""

from __future__ import annotations

import importlib
import logging
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import gymnasium

from kernel_rllib.errors import EnvError, MissingDependencyError

_log = logging.getLogger("kernel.rllib")

RENAMED: dict[str, tuple[str, str]] = {
    "CliffWalking-v0": ("CliffWalking-v1", "which only adds a slippery variant"),
    "LunarLander-v2": ("LunarLander-v3", "whose observations have wider bounds"),
    "LunarLanderContinuous-v2": ("LunarLanderContinuous-v3", "whose observations have wider bounds"),
    "Pendulum-v0": ("Pendulum-v1", "which behaves the same"),
    "Taxi-v3": ("Taxi-v4", "which differs only in options that are off by default"),
}
"""Names that gymnasium has no more, the names under which the same rules are now, and what differs."""

_DETERMINISTIC = re.compile(r"(\w+)Deterministic-v4")
"""Atari games that repeat each action four times: NoFrameskip with that number of frames."""


class Package(NamedTuple):
    """A package that gives gymnasium names: those that `names` matches."""

    names: re.Pattern[str]
    module: str
    install: str


PACKAGES = (
    Package(re.compile(r"ALE/.*|\w+NoFrameskip-v[04]|\w+Deterministic-v4"), "ale_py", "ale-py"),
    Package(re.compile(r"(MiniGrid|BabyAI)-.*"), "minigrid", "minigrid"),
    Package(re.compile(r"(highway|merge|roundabout|parking|intersection|racetrack)-.*"), "highway_env", "highway-env"),
    Package(re.compile(r"\w+BulletEnv-v\d"), "pybullet_envs_gymnasium", "pybullet-envs-gymnasium"),
    Package(re.compile(r"Vizdoom\w*-(\w+-)?v\d"), "vizdoom.gymnasium_wrapper", "vizdoom"),
)


def is_known(name: str) -> bool:
    """Return whether gymnasium can make an environment of this name, after its package is imported.

    Raises MissingDependencyError where a package is known to bring the name, and is not installed.
    """
    if ":" in name:  # "module:Name-v0": gymnasium imports the module
        return True
    name = _current(name)[0]
    if name in gymnasium.registry:
        return True
    for package in PACKAGES:
        if package.names.fullmatch(name):
            _import(package, name)
            return name in gymnasium.registry
    return False


def make(name: str, settings: Mapping[str, Any]) -> Any:
    """Return a new environment of gymnasium; settings are its keyword arguments.

    It has no checker around it: `checking.py` looks closer, once. Raises MissingDependencyError where it needs a
    library that is not installed.
    """
    current, more, difference = _current(name)
    if current != name and difference:
        _log.info("environment %s is %s now, %s", name, current, difference)
    is_known(name)  # imports the package that registers it, in a process that has not
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is out of date", category=DeprecationWarning)
            return gymnasium.make(current, **{"disable_env_checker": True, **more, **settings})
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingDependencyError(f"environment {name!r}: {error}") from error
    except gymnasium.error.Error as error:
        raise EnvError(f"gymnasium can't make environment {name!r}: {error}") from error


def names() -> Iterable[str]:
    """Return the names that can be asked for: those registered with gymnasium, and the older ones."""
    return sorted({*gymnasium.registry, *RENAMED})


def _current(name: str) -> tuple[str, dict[str, Any], str]:
    """Return today's name of an environment, what `make` needs besides, and what differs."""
    if name in gymnasium.registry:
        return name, {}, ""
    if name in RENAMED:
        current, difference = RENAMED[name]
        return current, {}, difference
    deterministic = _DETERMINISTIC.fullmatch(name)
    if deterministic:
        return f"{deterministic[1]}NoFrameskip-v4", {"frameskip": 4}, "with four frames a step"
    return name, {}, ""


def _import(package: Package, name: str) -> None:
    try:
        module = importlib.import_module(package.module)
    except ImportError as error:
        raise MissingDependencyError(
            f"environment {name!r} comes with the library {package.install}, which can't be imported ({error}). "
            f"Run: pip install {package.install}"
        ) from error
    gymnasium.register_envs(module)
