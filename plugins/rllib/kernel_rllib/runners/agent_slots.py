"""Assign lanes of one module to its agents: taken when an agent appears, given back when its episode is over.

Each copy of an environment has lanes of its own, numbered from 0 as it needs them, so that the lane of an agent, and
with it its noise, is the same whichever runner steps the copy.
"""

from __future__ import annotations

import heapq
from typing import Any

SLOTS = 1 << 20
"""The most lanes of a copy for one module: lane `slot` of copy `c` has the number `c * SLOTS + slot`."""


class AgentSlots:
    """The lanes of one module in one runner."""

    def __init__(self) -> None:
        """Begin without lanes."""
        self.numbers: list[int] = []
        """The numbers of all lanes that there ever were, by their positions."""
        self.owners: dict[int, tuple[int, Any]] = {}
        """The owners of taken lanes, by position: the copy's place among those of the runner, and the agent."""
        self._positions: dict[int, int] = {}
        self._used: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}

    def take(self, copy: int, place: int, agent: Any, slot: int | None = None) -> int:
        """Return the position of a lane that is an agent's from now on.

        Args:
            copy: The number of the copy among all of the run.
            place: Its place among those of the runner.
            agent: The agent.
            slot: The position that the lane had before; None for the first free one.
        """
        free = self._free.setdefault(copy, [])
        if slot is None:
            slot = heapq.heappop(free) if free else self._used.get(copy, 0)
        for skipped in range(self._used.get(copy, 0), slot):
            heapq.heappush(free, skipped)
        if slot in free:
            free.remove(slot)
            heapq.heapify(free)
        self._used[copy] = max(self._used.get(copy, 0), slot + 1)
        position = self.position_of(copy * SLOTS + slot)
        self.owners[position] = (place, agent)
        return position

    def position_of(self, number: int) -> int:
        """Return the position of the lane with a number, which is made if there is none."""
        position = self._positions.get(number)
        if position is None:
            position = self._positions[number] = len(self.numbers)
            self.numbers.append(number)
            self.added(position)
        return position

    def take_number(self, number: int, place: int, agent: Any) -> int:
        """Return the position of the lane with a number, which is an agent's again."""
        copy, slot = divmod(number, SLOTS)
        return self.take(copy, place, agent, slot)

    def position_in(self, copy: int, slot: int) -> int:
        """Return the position of a lane of a copy."""
        return self.position_of(copy * SLOTS + slot)

    def give_back(self, position: int) -> None:
        """Let another agent have a lane."""
        del self.owners[position]
        copy, slot = divmod(self.numbers[position], SLOTS)
        heapq.heappush(self._free[copy], slot)

    def forget(self) -> None:
        """Take all lanes back, as if there had never been any agent; their numbers stay known."""
        self.owners.clear()
        self._used.clear()
        self._free.clear()

    def of_copy(self, copy: int) -> dict[int, int]:
        """Return the positions of the lanes of a copy, by their slots."""
        found = {number % SLOTS: place for number, place in self._positions.items() if number // SLOTS == copy}
        return dict(sorted(found.items()))

    def added(self, position: int) -> None:
        """Make room for what is kept of a lane."""
