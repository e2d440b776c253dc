"""The dicts of defaults that 2.0 to 2.9 had beside their configs: for all importers the same objects."""

from __future__ import annotations

from typing import Any

from kernel_rllib.training.registry import ALGORITHMS, algorithm_class


def __getattr__(name: str) -> Any:
    """Return the settings of an algorithm by its name, which are made when they are first asked for."""
    if name not in ALGORITHMS:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; there are {', '.join(sorted(ALGORITHMS))}"
        )
    made = globals()[name] = algorithm_class(name).config_class.default_dict("2.x")
    return made
