"""Send messages to owners of objects that they must acknowledge, and do the work that waits for that."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from kernel.runtime.waiter import Waiter
from kernel_spec.dataclass import dataclass
from kernel_spec.ids import ProcessId


@dataclass(slots=True)
class Arrival:
    """Holds the origin of a value that is being deserialized: its sender, and registrations that it still awaits."""

    sender: ProcessId
    unsettled: Waiter


class Acknowledgements:
    """Holds the acknowledgements that one process waits for. It does not wait for owners that have ended."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._awaited: dict[int, tuple[ProcessId, Callable[[], object]]] = {}

    def __len__(self) -> int:
        """Return the number of acknowledgements that are awaited."""
        return len(self._awaited)

    def expect(self, owner: ProcessId, then: Callable[[], object]) -> int:
        """Return the number (never 0) under which `owner` is to acknowledge; `then()` is called once it has."""
        number = next(self._numbers)
        self._awaited[number] = (owner, then)
        return number

    def arrived(self, number: int) -> None:
        """End the wait for an acknowledgement, which has arrived or never will."""
        found = self._awaited.pop(number, None)
        if found is not None:
            found[1]()

    def lost(self, owner: ProcessId) -> None:
        """End the waits for the acknowledgements of an owner that has ended."""
        for number in [number for number, awaited in self._awaited.items() if awaited[0] == owner]:
            self.arrived(number)
