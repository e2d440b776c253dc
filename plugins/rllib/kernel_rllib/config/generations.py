"""The generations of the API that is configured here, each with names and defaults of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Generation = Literal["0.8.5", "1.x", "2.x", "current"]
"""`0.8.5`: trainers with dicts. `1.x`: trainers, more keys. `2.x`: 2.0 to 2.9, objects. `current`: 2.10 to 2.60."""

GENERATIONS: tuple[Generation, ...] = ("0.8.5", "1.x", "2.x", "current")
"""From the oldest to the newest."""

_RANK = {generation: rank for rank, generation in enumerate(GENERATIONS)}


class Default:
    """A default that has not always been the same: `Default("auto", older={"0.8.5": 200})`."""

    __slots__ = ("current", "older")

    def __init__(self, current: Any, older: Mapping[Generation, Any]) -> None:
        """Remember the values.

        Args:
            current: The value of today.
            older: The values before, by generation. One that isn't named had the value of the next newer one.
        """
        self.current = current
        self.older = dict(older)

    def of(self, generation: Generation) -> Any:
        """Return the value in a generation."""
        for newer in GENERATIONS[_RANK[generation] : -1]:
            if newer in self.older:
                return self.older[newer]
        return self.current


def values(**defaults: Any) -> Mapping[str, Any]:
    """Return values by the names of settings: `defaults = values(lr=5e-5, train_batch_size=4000)`."""
    return defaults


def is_between(generation: Generation, since: Generation, until: Generation) -> bool:
    """Return whether a generation is one from `since` to `until`, these included."""
    return _RANK[since] <= _RANK[generation] <= _RANK[until]
