"""The dicts of defaults that programs of the first generation copy and change: for all importers the same objects."""

from __future__ import annotations

from typing import Any

from kernel_rllib.config.defaults import model_defaults
from kernel_rllib.first_generation.trainer import GENERATION
from kernel_rllib.first_generation.trainers import default_config
from kernel_rllib.training.registry import ALGORITHMS

MODEL_DEFAULTS: dict[str, Any] = model_defaults(GENERATION)
"""The options of models."""


def __getattr__(name: str) -> Any:
    """Return the settings of an algorithm by its name, which are made when they are first asked for."""
    if name not in ALGORITHMS:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; there are {', '.join(sorted(ALGORITHMS))}"
        )
    made = globals()[name] = default_config(name)
    return made
