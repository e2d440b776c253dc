"""Algorithms that RLlib has and that are not here yet: what asking for each of them says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import kernel_rllib
import pytest
from kernel_rllib.errors import ConfigError
from kernel_rllib.first_generation import trainers
from kernel_rllib.training.later import LATER
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class, why_missing

from kernel_runs.errors import RunError
from kernel_runs.trainable.registry import find_trainable

LATE = "is an algorithm of RLlib that comes in a later release of kernel.rllib. Today there are A2C, A3C, APPO, ARS, "


@pytest.mark.parametrize(
    ("ask", "name", "error"),
    [
        (algorithm_class, "LeelaChessZero", ConfigError),
        (algorithm_class, "contrib/LeelaChessZero", ConfigError),
        (find_trainable, "LeelaChessZero", RunError),
        (find_trainable, "contrib/LeelaChessZero", RunError),
        (lambda name: getattr(kernel_rllib, f"{name}Config"), "LeelaChessZero", AttributeError),
        (lambda name: getattr(trainers, f"{name}Trainer"), "LeelaChessZero", AttributeError),
    ],
)
def test_an_algorithm_of_a_later_release_says_so(ask: Callable[[str], Any], name: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^{re.escape(name)} {LATE}"):
        ask(name)


def test_each_has_its_advice_and_none_is_here() -> None:
    assert not {name.lower() for name in LATER} & {name.lower() for name in ALGORITHMS}
    for name, advice in LATER.items():
        assert str(why_missing(name)).endswith(f"For {name}: {advice}")
    assert why_missing("PPOO") is None and why_missing("PPO") is None
