"""Collect objects that stores must delete, and send them soon, in one message for each store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernel.runtime.object_entry import PENDING, STORED, ObjectEntry
from kernel_spec.ids import ObjectId

if TYPE_CHECKING:
    from kernel_engine.surroundings import EngineProcess, EngineStore


class StoreDeletions:
    """Collects the deletions of one process. `here` and `elsewhere` (by place) hold those that were not sent yet."""

    def __init__(self, process: EngineProcess, store: EngineStore) -> None:
        self._process = process
        self._store = store
        self.here: list[ObjectId] = []
        self.elsewhere: dict[str, list[ObjectId]] = {}

    def add(self, id: ObjectId, places: Sequence[str]) -> None:
        """Have the stores of `places` forget an object; without any, that of this node."""
        if not places:
            self.here.append(id)
        for place in places:
            if place == self._process.identity.gateway:
                self.here.append(id)
            else:
                self.elsewhere.setdefault(place, []).append(id)

    def clear_away(self, results: Iterable[ObjectEntry], place: str) -> None:
        """Have the store at `place` delete results that a process which died there may have stored without a report.

        This is done when the results are known, because they may be made again at the same place. No other process
        knows of such a copy, which would stay as long as the session.
        """
        for entry in results:
            if entry.state == PENDING:
                entry.when_ready(lambda ready: self._clear_away(ready, place))

    def _clear_away(self, entry: ObjectEntry, place: str) -> None:
        if entry.state != STORED or (place and place not in entry.value[1]):
            self.add(entry.id, (place,) if place else ())

    def tell(self) -> None:
        """Tell the stores."""
        if self.here:
            self._store.delete(self.here.copy())
            self.here.clear()
        while self.elsewhere:
            self._store.delete_at(*self.elsewhere.popitem())
