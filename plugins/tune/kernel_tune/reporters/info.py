"""Information about an experiment that reporters display besides its trials."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_GIB = 1024**3
_IN_BYTES = {"memory": "heap", "object_store_memory": "objects"}


@dataclass(frozen=True)
class ExperimentInfo:
    """The state of an experiment. The runner makes one for each report."""

    name: str = ""
    logdir: str = ""
    """The experiment's directory."""
    scheduler: str = ""
    """The `debug_string()` of the trial scheduler."""
    used: Mapping[str, float] = field(default_factory=dict)
    """The resources that running trials use, by name: `CPU`, `GPU`, `memory` (bytes), ..."""
    total: Mapping[str, float] = field(default_factory=dict)
    """The resources of the machines."""
    memory: tuple[float, float] | None = None
    """The bytes of memory that are used and that exist on this machine, from `node_memory()`; None if not known."""
    trials: int | None = None
    """The number of trials that there will be; None if it is not known."""

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
        """Return used and existing resources: `4/12 CPUs, 0/0 GPUs, 0.0/3.17 GiB heap`."""
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
    """Return how many bytes of this machine's memory are used, and how many exist; None if that is not known."""
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
