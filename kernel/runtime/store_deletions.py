"""Objects that the stores are to forget, soon: collected, then told in one message a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernel.runtime.object_entry import PENDING, STORED, ObjectEntry
from kernel.runtime.process import Process
from kernel.runtime.store_access import StoreAccess
from kernel_spec.ids import ObjectId


class StoreDeletions:
    """Of one process. `here` and `elsewhere` (by place) hold what was not told yet."""

    def __init__(self, process: Process, store: StoreAccess) -> None:
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
        """Have the store at `place` forget what a process that died there may have stored and not told of.

        It is done when the results are known, for they may be made again at the same place. Nobody else knows of such
        a copy, and it would stay as long as the session.
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
