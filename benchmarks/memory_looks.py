"""What processes hold in memory, looked at again and again, and how fast it grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

SPAN_SECONDS = 600.0
"""Growth is told for so long: ten minutes."""


class Memory(NamedTuple):
    """Megabytes of a process: `resident`, its share of that (`proportional`), and what no file or store backs (`own`).

    Pages of the object store count as resident in every process that has touched them, so that only `own` tells
    whether the process itself grows.
    """

    resident: float
    proportional: float
    own: float


class Look(NamedTuple):
    """The processes, by what they are, some seconds after the beginning."""

    seconds: float
    memory: dict[str, Memory]


def memory_of(pid: int) -> Memory | None:
    """Return the memory of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            found = {line.split(":")[0]: line.split() for line in file if ":" in line}
        return Memory(*(int(found[name][1]) / 1024 for name in ("Rss", "Pss", "Anonymous")))
    except (OSError, KeyError):  # a process that is ending has nothing left to tell
        return None


def look(seconds: float, processes: Mapping[str, int]) -> Look:
    """Look at those of the processes that there are."""
    found = {name: memory_of(pid) for name, pid in processes.items()}
    return Look(seconds, {name: memory for name, memory in found.items() if memory is not None})


def growth(looks: Sequence[Look], name: str, warm_up: float) -> float | None:
    """Return how many megabytes of its own a process gains in ten minutes: the slope after `warm_up` seconds.

    None when it was not seen often enough. It is the line with the smallest squares.
    """
    seen = [(look.seconds, look.memory[name].own) for look in looks if look.seconds >= warm_up and name in look.memory]
    if len(seen) < 3:
        return None
    middle = sum(seconds for seconds, _ in seen) / len(seen)
    mean = sum(own for _, own in seen) / len(seen)
    spread = sum((seconds - middle) ** 2 for seconds, _ in seen)
    return sum((seconds - middle) * (own - mean) for seconds, own in seen) / spread * SPAN_SECONDS


def table(looks: Sequence[Look], warm_up: float, rows: int = 10) -> str:
    """Return as a Markdown table some of the looks, and the growth, of those processes that lived to the end."""
    names = list(looks[-1].memory)
    step = max(1, -(-len(looks) // rows))
    shown = [*looks[:-1:step], looks[-1]]
    lines = [
        "| minutes | " + " | ".join(f"{name}: RSS / PSS / own" for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for each in shown:
        cells = [" / ".join(f"{value:.1f}" for value in each.memory.get(name, ())) or "none yet" for name in names]
        lines.append(f"| {each.seconds / 60:.1f} | " + " | ".join(cells) + " |")
    grown = [growth(looks, name, warm_up) for name in names]
    cells = ["not known" if each is None else f"{each:+.2f}" for each in grown]
    lines.append("| **own, MB per 10 minutes** | " + " | ".join(cells) + " |")
    return "\n".join(lines)
