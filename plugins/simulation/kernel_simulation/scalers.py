"""Find what adds and removes nodes of a simulated cluster: an autoscaler, which another distribution offers.

A distribution offers one by an entry point in the group `kernel_simulation.scalers`: a function that is called with the
path of a file (what the command line was given) and a seed, and returns a `SimulatedScaler`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

from kernel_spec.errors import OptionError

GROUP = "kernel_simulation.scalers"
JOIN, DRAIN, KEEP, END, LOOK = "join", "drain", "keep", "end", "look"
"""The first words of what a scaler answers: see `SimulatedScaler.look`."""


class SimulatedScaler(Protocol):
    """Decides which nodes a simulated cluster gets, in simulated time."""

    def look(self, demand: Mapping[str, Any], now: float) -> Sequence[tuple[Any, ...]]:
        """Return what is to be done, given what `kernel.demand()` would say at `now` (in seconds).

        `("join", machine, resources, labels, seconds)`: a node of that machine joins in so many seconds, unless the
        machine has ended by then. `("end", machine)`: the machine ends. `("drain", node)` and `("keep", node)`: let a
        node leave when it is empty, or not after all. `("look", seconds)`: ask again then.
        """

    @property
    def machines(self) -> int:
        """How many machines there are, also those that start."""

    @property
    def prices(self) -> Mapping[str, float]:
        """The least price per hour of one unit of each resource."""

    def report(self) -> Mapping[str, Any]:
        """Return `node_hours`, `cost`, `idle_cost`, `launched`, `busy_ended` and `flaps`."""


def make_scaler(name: str, file: Path, seed: int) -> SimulatedScaler:
    """Return the scaler of that name. Raises OptionError for a name that no distribution offers."""
    offered = {point.name: point for point in entry_points(group=GROUP)}
    if name not in offered:
        known = ", ".join(sorted(offered)) or 'none; pip install "kernel[autoscaler]" brings one'
        raise OptionError(f"there is no autoscaler {name!r} to simulate; there are: {known}")
    return cast(Callable[[str, int], SimulatedScaler], offered[name].load())(str(file), seed)
