"""Read the load of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel_autoscaler.configuration import read_toml
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.simulated.cluster import SimulatedWork
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError
from kernel_spec.resources import amounts


@dataclass(frozen=True, slots=True)
class SimulatedLoad:
    """What a file describes; `capacity` is how many machines of a kind there are to be had at a time."""

    kinds: list[Kind]
    settings: Settings
    work: list[SimulatedWork]
    capacity: Mapping[str, int]


def load_from(file: Path) -> SimulatedLoad:
    """Return the load that a TOML file describes. Raises OptionError, which says what is wrong in it."""
    given = read_toml(file)
    try:
        kinds = {name: dict(said) for name, said in given["kinds"].items()}
        capacity = {name: int(said.pop("capacity")) for name, said in kinds.items() if "capacity" in said}
        return SimulatedLoad(
            [Kind(name, amounts(said.pop("resources")), **said) for name, said in kinds.items()],
            Settings(**given.get("settings", {})),
            [_work(dict(said)) for said in given.get("work", [])],
            capacity,
        )
    except KeyError as error:
        raise OptionError(f"{file} lacks {error}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"{file} is no load: {error}") from None


def _work(said: dict[str, Any]) -> SimulatedWork:
    group = said.pop("group", None)
    return SimulatedWork(wanted=amounts(said.pop("wanted")), group=tuple(group) if group else None, **said)
