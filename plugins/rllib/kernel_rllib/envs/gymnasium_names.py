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

_GAMES = (
    "Adventure|AirRaid|Alien|Amidar|Assault|Asterix|Asteroids|Atlantis|BankHeist|BattleZone|BeamRider|Berzerk|Bowling|"
    "Boxing|Breakout|Carnival|Centipede|ChopperCommand|CrazyClimber|Defender|DemonAttack|DoubleDunk|ElevatorAction|"
    "Enduro|FishingDerby|Freeway|Frostbite|Gopher|Gravitar|Hero|IceHockey|Jamesbond|JourneyEscape|Kangaroo|Krull|"
    "KungFuMaster|MontezumaRevenge|MsPacman|NameThisGame|Phoenix|Pitfall|Pong|Pooyan|PrivateEye|Qbert|Riverraid|"
    "RoadRunner|Robotank|Seaquest|Skiing|Solaris|SpaceInvaders|StarGunner|Tennis|TimePilot|Tutankham|UpNDown|Venture|"
    "VideoPinball|WizardOfWor|YarsRevenge|Zaxxon"
)
"""The games of Atari that gym had, by names that other environments could have as well."""
_ATARI = re.compile(r"(\w+?)(-ram)?(NoFrameskip|Deterministic)?-v([04])")
"""Older names of games of Atari: whether the memory is observed in place of the screen, and how frames are skipped."""


class Package(NamedTuple):
    """A package that gives gymnasium names: those that `names` matches."""

    names: re.Pattern[str]
    module: str
    install: str


PACKAGES = (
    Package(
        re.compile(rf"ALE/.*|\w+?(-ram)?(NoFrameskip|Deterministic)-v[04]|\w+-ram-v[04]|({_GAMES})-v[04]"),
        "ale_py",
        "ale-py",
    ),
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
    current = _current(name)[0]
    if current in gymnasium.registry:
        return True
    for package in PACKAGES:
        if package.names.fullmatch(name):
            _import(package, name)
            return current in gymnasium.registry
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
    atari = _ATARI.fullmatch(name)
    if atari is not None and (atari[2] or atari[3]):
        return _current_of_atari(*atari.groups())
    return name, {}, ""


def _current_of_atari(game: str, ram: str | None, frames: str | None, version: str) -> tuple[str, dict[str, Any], str]:
    """Return today's name of a game by an older name, what `make` needs besides, and what differs."""
    more: dict[str, Any] = {"obs_type": "ram"} if ram else {}
    differs = ["which shows its memory"] if ram else []
    if frames == "Deterministic":
        more["frameskip"] = 4
        differs.append("with four frames a step")
    return f"{game}{'NoFrameskip' if frames else ''}-v{version}", more, ", ".join(differs)


def _import(package: Package, name: str) -> None:
    try:
        module = importlib.import_module(package.module)
    except ImportError as error:
        raise MissingDependencyError(
            f"environment {name!r} comes with the library {package.install}, which can't be imported ({error}). "
            f"Run: pip install {package.install}"
        ) from error
    gymnasium.register_envs(module)
