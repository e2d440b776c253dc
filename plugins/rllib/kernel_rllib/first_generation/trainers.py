"""The trainers by their names: `PPOTrainer`, `DQNTrainer` and so on, one for each algorithm that there is."""

from __future__ import annotations

from typing import Any

from kernel_rllib.first_generation.trainer import GENERATION, Trainer
from kernel_rllib.training.registry import ALGORITHMS, algorithm_class, why_missing

SUFFIX = "Trainer"


def trainer_class(name: str) -> type[Trainer]:
    """Return the trainer of an algorithm, always the same class for the same name.

    Raises:
        ConfigError: If there is no such algorithm.
    """
    algorithm = algorithm_class(name)
    found: type[Trainer] = getattr(__import__(__name__, fromlist=["_"]), f"{algorithm.__name__}{SUFFIX}")
    return found


def default_config(name: str) -> dict[str, Any]:
    """Return the `DEFAULT_CONFIG` of an algorithm: a new dict of all its settings, as 0.8.5 had them."""
    config: dict[str, Any] = algorithm_class(name).config_class.default_dict(GENERATION)
    return config


def __getattr__(name: str) -> Any:
    """Make a trainer when it is first asked for."""
    algorithm = name[: -len(SUFFIX)]
    if not name.endswith(SUFFIX) or algorithm not in ALGORITHMS:
        reason = why_missing(algorithm) if name.endswith(SUFFIX) else None
        raise AttributeError(
            reason or f"module {__name__!r} has no attribute {name!r}; there are {', '.join(__dir__())}"
        )
    base = algorithm_class(algorithm)
    body = {
        "__module__": __name__,
        "__doc__": f"{base.__doc__} With the defaults of the first generation.",
        "_name": algorithm,
    }
    made = globals()[name] = type(name, (Trainer, base), body)
    return made


def __dir__() -> list[str]:
    return sorted(f"{name}{SUFFIX}" for name in ALGORITHMS)
