"""Know for how long machines that are still coming have been needed by nothing: after a while they are called off."""

from __future__ import annotations

from collections.abc import Mapping


class SpareMachines:
    """Counts the machines of each kind that start, and that no need was placed on, with the time since when."""

    def __init__(self) -> None:
        self._since: dict[str, list[float]] = {}

    def see(self, spare: Mapping[str, int], now: float) -> None:
        """So many of each kind are spare now. If they are fewer than before, the latest ones are needed again."""
        for kind in {*spare, *self._since}:
            known, count = self._since.setdefault(kind, []), spare.get(kind, 0)
            del known[count:]
            known += [now] * (count - len(known))

    def for_longer_than(self, seconds: float, now: float) -> dict[str, int]:
        """Return how many of each kind have been spare for so many seconds."""
        late = {kind: sum(now - at >= seconds for at in since) for kind, since in self._since.items()}
        return {kind: count for kind, count in late.items() if count}
