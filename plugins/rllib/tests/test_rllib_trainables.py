"""Each algorithm is a trainable of Tune by its name."""

from __future__ import annotations

import sys
from pathlib import Path

from kernel_rllib.algorithms.ppo import PPO
from kernel_rllib.training.later import CONTRIBUTED
from kernel_rllib.training.registry import ALGORITHMS, OTHER_NAMES

from kernel_runs.trainable.registry import GROUP, find_trainable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def test_what_is_installed_offers_each_algorithm_by_its_name() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    offered = project["project"]["entry-points"][GROUP]
    contributed = {name: offered.pop(name) for name in list(offered) if name.startswith(CONTRIBUTED)}
    places = {name: f"{module}:{name}" for name, module in ALGORITHMS.items()}
    assert offered == {**places, **{older: places[name] for older, name in OTHER_NAMES.items()}}
    assert all(offered[name.removeprefix(CONTRIBUTED)] == place for name, place in contributed.items())


def test_tune_finds_an_algorithm_by_its_name() -> None:
    assert find_trainable("PPO") is PPO
