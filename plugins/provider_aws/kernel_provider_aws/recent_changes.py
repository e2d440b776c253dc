"""What was done a moment ago and EC2 may not list yet: its lists lag behind its calls by some seconds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernel_spec.providers import ProvidedNode

LAG_SECONDS = 60.0
"""Seconds for which what was done counts more than a list that differs."""


class RecentChanges:
    """Knows machines that were made and ended within `LAG_SECONDS`."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[ProvidedNode, float]] = {}
        self._ended: dict[str, float] = {}

    def made(self, nodes: Iterable[ProvidedNode], now: float) -> None:
        """Machines were made, or started again."""
        for node in nodes:
            self._made[node.id] = node, now
            self._ended.pop(node.id, None)

    def ended(self, ids: Iterable[str], now: float) -> None:
        """Machines were ended."""
        for id in ids:
            self._ended[id] = now
            self._made.pop(id, None)

    def applied(self, listed: Sequence[ProvidedNode], gone: Iterable[str], now: float) -> list[ProvidedNode]:
        """Return a list with what is known better. `gone` are those that EC2 says are there no more."""
        self._made = {id: one for id, one in self._made.items() if now - one[1] < LAG_SECONDS}
        self._ended = {id: at for id, at in self._ended.items() if now - at < LAG_SECONDS}
        seen = {node.id for node in listed} | set(gone)
        for id in seen & set(self._made):
            del self._made[id]
        found = [replace(node, state="stopping", problem="") if node.id in self._ended else node for node in listed]
        return [*found, *(node for node, _ in self._made.values())]
