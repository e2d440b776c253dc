"""Measure how busy the machine is, as metrics of results."""

from __future__ import annotations

from pathlib import Path


class SystemUsage:
    """Measures, from call to call, how much of the machine's CPUs and memory all processes use."""

    def __init__(self, proc: str = "/proc") -> None:
        """Read what the kernel says below `proc`; where there is no such directory, nothing is measured."""
        self._proc = Path(proc)
        self._last = self._times()

    def measure(self) -> dict[str, float]:
        """Return `cpu_util_percent` since the last call and `ram_util_percent` now; an empty dict where unknown."""
        found: dict[str, float] = {}
        last, self._last = self._last, self._times()
        if last is not None and self._last is not None:
            busy, total = self._last[0] - last[0], self._last[1] - last[1]
            found["cpu_util_percent"] = 100.0 * busy / total if total else 0.0
        try:
            lines = (self._proc / "meminfo").read_text(encoding="ascii").splitlines()
            sizes = {line.split(":")[0]: float(line.split()[1]) for line in lines if len(line.split()) > 1}
            found["ram_util_percent"] = 100.0 * (1.0 - sizes["MemAvailable"] / sizes["MemTotal"])
        except (OSError, KeyError, ValueError):
            pass
        return found

    def _times(self) -> tuple[float, float] | None:
        """Return the jiffies in which all CPUs were busy, and all of them; None where that is unknown."""
        try:
            first, *_ = (self._proc / "stat").read_text(encoding="ascii").splitlines()
            numbers = [float(each) for each in first.split()[1:9]]
        except (OSError, ValueError):
            return None
        return sum(numbers) - sum(numbers[3:5]), sum(numbers)
