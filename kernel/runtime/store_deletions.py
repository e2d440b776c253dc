"""Objects that the stores are to forget, soon: collected, then told in one message a store."""

from __future__ import annotations

from collections.abc import Sequence

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

    def tell(self) -> None:
        """Tell the stores."""
        if self.here:
            self._store.delete(self.here.copy())
            self.here.clear()
        while self.elsewhere:
            self._store.delete_at(*self.elsewhere.popitem())
