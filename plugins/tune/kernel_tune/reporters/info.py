"""What a reporter shows of an experiment beside its trials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_GIB = 1024**3
_IN_BYTES = {"memory": "heap", "object_store_memory": "objects"}


@dataclass(frozen=True)
class ExperimentInfo:
    """Where an experiment stands. The runner makes one for each report."""

    name: str = ""
    logdir: str = ""
    """The experiment's directory."""
    scheduler: str = ""
    """What the trial scheduler says of itself: its `debug_string()`."""
    used: Mapping[str, float] = field(default_factory=dict)
    """What running trials hold, by the names of resources: `CPU`, `GPU`, `memory` (bytes), ..."""
    total: Mapping[str, float] = field(default_factory=dict)
    """What there is of it."""
    memory: tuple[float, float] | None = None
    """Bytes used and there on this machine; None where nobody knows. `node_memory()` says."""
    trials: int | None = None
    """How many trials there will be; None where the searcher goes on as long as it is let."""

    def lines(self) -> tuple[str, ...]:
        """Return the lines below `== Status ==`: memory, scheduler, resources."""
        lines = []
        if self.memory is not None:
            used, total = (round(size / _GIB, 1) for size in self.memory)
            lines.append(f"Memory usage on this node: {used}/{total} GiB")
        if self.scheduler:
            lines.append(self.scheduler)
        if self.total:
            lines.append(f"Resources requested: {self.resources()}")
        return tuple(lines)

    def resources(self) -> str:
        """Return what is held and what there is: `4/12 CPUs, 0/0 GPUs, 0.0/3.17 GiB heap`."""
        parts = [f"{self.used.get(name, 0):g}/{self.total.get(name, 0):g} {name}s" for name in ("CPU", "GPU")]
        for name, shown in _IN_BYTES.items():
            if name in self.total:
                used, total = (round(sizes.get(name, 0) / _GIB, 2) for sizes in (self.used, self.total))
                parts.append(f"{used}/{total} GiB {shown}")
        for name in sorted(set(self.total) - {"CPU", "GPU", *_IN_BYTES}):
            if not name.startswith("node:"):
                parts.append(f"{self.used.get(name, 0):g}/{self.total[name]:g} {name}")
        return ", ".join(parts)


def node_memory() -> tuple[float, float] | None:
    """Return how many bytes of this machine's memory are used, and how many there are; None if it does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        sizes = {line.split(":")[0]: float(line.split()[1]) * 1024 for line in text.splitlines() if " kB" in line}
        return sizes["MemTotal"] - sizes["MemAvailable"], sizes["MemTotal"]
    except (OSError, KeyError, ValueError):
        pass
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        return float(total - page * os.sysconf("SC_AVPHYS_PAGES")), float(total)
    except (OSError, ValueError, AttributeError):
        return None
