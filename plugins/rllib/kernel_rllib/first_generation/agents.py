"""Agents: what trainers were in 0.2, where the environment comes first: `PPOAgent("CartPole-v1", config)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.first_generation.trainers import trainer_class
from kernel_rllib.training.registry import ALGORITHMS

SUFFIX = "Agent"


class _EnvironmentFirst:
    """The constructor of agents."""

    def __init__(self, env_creator: Any = None, config: Mapping[str, Any] | None = None, **further: Any) -> None:
        """Build the agent.

        Args:
            env_creator: The environment: a name, a class, or a function that makes one.
            config: The settings; None for the defaults.
            further: Arguments of a trainer.
        """
        super().__init__(config=config, env=env_creator, **further)  # type: ignore[call-arg]


def __getattr__(name: str) -> Any:
    """Make the agent of an algorithm when it is first asked for."""
    algorithm = name.removesuffix(SUFFIX)
    if not name.endswith(SUFFIX) or algorithm not in ALGORITHMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; there are {', '.join(__dir__())}")
    base = trainer_class(algorithm)
    body = {"__module__": __name__, "__doc__": f"{base.__doc__} The environment comes first."}
    made = globals()[name] = type(name, (_EnvironmentFirst, base), body)
    return made


def __dir__() -> list[str]:
    return sorted(f"{name}{SUFFIX}" for name in ALGORITHMS)
