"""The algorithms by name. Each is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.training.later import CONTRIBUTED, LATER

ALGORITHMS = {
    "A2C": "kernel_rllib.algorithms.a2c",
    "A3C": "kernel_rllib.algorithms.a3c",
    "APPO": "kernel_rllib.algorithms.appo",
    "ARS": "kernel_rllib.algorithms.ars",
    "AlphaStar": "kernel_rllib.algorithms.alpha_star",
    "AlphaZero": "kernel_rllib.algorithms.alpha_zero",
    "ApexDDPG": "kernel_rllib.algorithms.apex_ddpg",
    "ApexDQN": "kernel_rllib.algorithms.apex_dqn",
    "ApexQMIX": "kernel_rllib.algorithms.apex_qmix",
    "BanditLinTS": "kernel_rllib.algorithms.bandit",
    "BanditLinUCB": "kernel_rllib.algorithms.bandit",
    "BC": "kernel_rllib.algorithms.bc",
    "CQL": "kernel_rllib.algorithms.cql",
    "CRR": "kernel_rllib.algorithms.crr",
    "DDPG": "kernel_rllib.algorithms.ddpg",
    "DDPPO": "kernel_rllib.algorithms.ddppo",
    "DQN": "kernel_rllib.algorithms.dqn",
    "Dreamer": "kernel_rllib.algorithms.dreamer",
    "DreamerV3": "kernel_rllib.algorithms.dreamerv3",
    "DT": "kernel_rllib.algorithms.dt",
    "ES": "kernel_rllib.algorithms.es",
    "IMPALA": "kernel_rllib.algorithms.impala",
    "IQL": "kernel_rllib.algorithms.iql",
    "IQN": "kernel_rllib.algorithms.iqn",
    "MADDPG": "kernel_rllib.algorithms.maddpg",
    "MAML": "kernel_rllib.algorithms.maml",
    "MARWIL": "kernel_rllib.algorithms.marwil",
    "MBMPO": "kernel_rllib.algorithms.mbmpo",
    "PG": "kernel_rllib.algorithms.pg",
    "PPO": "kernel_rllib.algorithms.ppo",
    "QMIX": "kernel_rllib.algorithms.qmix",
    "R2D2": "kernel_rllib.algorithms.r2d2",
    "QRDQN": "kernel_rllib.algorithms.qrdqn",
    "RandomAgent": "kernel_rllib.algorithms.random_agent",
    "SAC": "kernel_rllib.algorithms.sac",
    "SimpleQ": "kernel_rllib.algorithms.simple_q",
    "SlateQ": "kernel_rllib.algorithms.slateq",
    "TD3": "kernel_rllib.algorithms.td3",
    "TQC": "kernel_rllib.algorithms.tqc",
}
"""The module of each algorithm, by its name, which is also the name of the class."""

OTHER_NAMES = {
    "APEX": "ApexDQN",
    "APEX_DDPG": "ApexDDPG",
    "APEX_DQN": "ApexDQN",
    "APEX_QMIX": "ApexQMIX",
    "LinTS": "BanditLinTS",
    "LinUCB": "BanditLinUCB",
}
"""Names of older releases for algorithms that have another one today."""


def algorithm_class(name: str) -> Any:
    """Return the class of the algorithm with this name.

    Raises:
        ConfigError: If there is none.
    """
    name = name if name in ALGORITHMS else _name_of_today(name)
    if name not in ALGORITHMS:
        there_are = f"there are {', '.join(sorted(ALGORITHMS))}"
        raise ConfigError(
            why_missing(name) or f"there is no algorithm {name!r}{did_you_mean(name, ALGORITHMS)}; {there_are}"
        )
    return getattr(importlib.import_module(ALGORITHMS[name]), name)


def _name_of_today(name: str) -> str:
    """Return the name of today for an older one, or for one that others had contributed; other names as they are."""
    known = name.removeprefix(CONTRIBUTED)
    known = OTHER_NAMES.get(known, known)
    return known if known in ALGORITHMS else name


def why_missing(name: str) -> str | None:
    """Return what to say of an algorithm that is known and not here yet; None of other names.

    Args:
        name: As any release of RLlib has it, such as "IMPALA", "apex" or "contrib/MADDPG".
    """
    asked = name.removeprefix(CONTRIBUTED).lower()
    for known, advice in LATER.items():
        if known.lower() == asked:
            return (
                f"{name} is an algorithm of RLlib that comes in a later release of kernel.rllib. Today there are "
                f"{', '.join(sorted(ALGORITHMS))}. For {known}: {advice}"
            )
    return None
