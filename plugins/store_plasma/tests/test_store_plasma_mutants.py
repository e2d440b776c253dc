"""Wrong ways to spill: the suite of object stores must fail every store that has one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kernel_store_plasma import PlasmaStore
from kernel_store_plasma.arena import open_arena
from kernel_store_plasma.server import PlasmaServer
from kernel_store_plasma.table import RESTORING, SPILLED, Entry

from kernel.conformance.object_store import ObjectStoreConformance
from kernel.testing.first_failure import first_failure
from kernel_spec.errors import ObjectStoreFullError
from kernel_spec.store import (
    Delete,
    DeleteSpill,
    Failed,
    RestoreDone,
    RestoreFailed,
    RestoreLate,
    SpillDone,
    SpillFailed,
    StoredObject,
    StoreEvent,
    StoreInstruction,
    StoreUsage,
    WriteSpill,
)


class Server(PlasmaServer):
    """Takes in `heard(event)`, and answers with what `said(instruction)` makes of each instruction."""

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        heard = self.heard(event)
        if heard is None:
            return []
        return [each for told in super().handle(heard) for each in self.said(told)]

    def give_up_waiting(self) -> list[StoreInstruction]:
        return [each for told in super().give_up_waiting() for each in self.said(told)]

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        """Return what to take in instead of an event."""
        return event

    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        """Return what to answer instead of an instruction."""
        return [instruction]


class Wrong(Server):
    """Does not see by itself that it is wrong."""

    def validate(self) -> None:
        return None


def deaf_to(kind: type) -> type[PlasmaServer]:
    """Return a server that never hears of events of one kind."""

    class Deaf(Wrong):
        def heard(self, event: StoreEvent) -> StoreEvent | None:
            return None if isinstance(event, kind) else event

    Deaf.__name__ = f"DeafTo{kind.__name__}"
    return Deaf


DEAF = [deaf_to(kind) for kind in (SpillDone, SpillFailed, RestoreDone, RestoreFailed, RestoreLate)]


class LeavesCopies(Wrong):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [] if isinstance(instruction, DeleteSpill) else [instruction]


class DeletesCopiesTwice(Wrong):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [instruction] * (2 if isinstance(instruction, DeleteSpill) else 1)


class WritesNothing(Wrong):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [] if isinstance(instruction, WriteSpill) else [instruction]


class WritesThePlaceBeside(Wrong):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [replace(instruction, location=0) if isinstance(instruction, WriteSpill) else instruction]


class LosesCopies(Wrong):
    """Deletes the copy of what it is to read back."""

    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        uri = getattr(instruction, "uri", None)
        return [DeleteSpill(uri), instruction] if uri and not isinstance(instruction, DeleteSpill) else [instruction]


class TakesFailedForWritten(Wrong):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return SpillDone(event.object, "nowhere") if isinstance(event, SpillFailed) else event


class TakesFailedForRead(Wrong):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return RestoreDone(event.object) if isinstance(event, RestoreFailed) else event


class TakesLateForFailed(Wrong):
    """Frees the memory of what is still being read, and reads it once more when asked."""

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return RestoreFailed(event.object, event.error) if isinstance(event, RestoreLate) else event


class GivesTheMemoryOfLateOnesAway(Wrong):
    """Lets others have the memory of what comes late, and takes it again when that came."""

    def _restore_late(self, event: RestoreLate, out: list[StoreInstruction]) -> None:
        super()._restore_late(event, out)
        self.table.release_memory(self.table.disk_work[event.object])

    def _restore_done(self, event: RestoreDone, out: list[StoreInstruction]) -> None:
        entry = self.table.disk_work.get(event.object)
        if entry is not None and entry.location is None and not self.table.take_memory(entry):
            return
        super()._restore_done(event, out)


class GivesTheMemoryOfDeletedOnesAway(Wrong):
    """Lets others have the memory of what is deleted while it is read back."""

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        if isinstance(event, Delete):
            for object in event.objects:
                entry = self.table.current.get(object)
                if entry is not None and entry.state == RESTORING:
                    self._moved(object, RESTORING)
                    self.table.set_state(entry, SPILLED)
                    self.table.release_memory(entry)
        return event


class FailsLateOnesOnce(Wrong):
    """Lets new pins wait for what is late."""

    def _restore_late(self, event: RestoreLate, out: list[StoreInstruction]) -> None:
        super()._restore_late(event, out)
        entry = self.table.disk_work.get(event.object)
        if entry is not None:
            entry.late = None


class SpillsTheLatest(Wrong):
    def __init__(self, arena: Any) -> None:
        super().__init__(arena)
        victim = self.queue._victim
        latest = lambda: next(reversed(self.table.idle), None)
        self.queue._victim = lambda: victim() if self.queue.spill_error else latest()  # type: ignore[method-assign]


class SpillsWhatIsRead(Wrong):
    """Counts no pins when it looks for what may go."""

    def __init__(self, arena: Any) -> None:
        super().__init__(arena)
        victim = self.queue._victim
        self.queue._victim = lambda: victim() if self.queue.spill_error else self._sealed()  # type: ignore[method-assign]

    def _sealed(self) -> Entry | None:
        return next((each for each in self.table.current.values() if each.state == "sealed"), None)

    def _spill_done(self, event: SpillDone, out: list[StoreInstruction]) -> None:
        entry = self.table.disk_work.get(event.object)
        pins, count = entry, entry.pin_count if entry is not None else 0
        if pins is not None:
            pins.pin_count = 0
        super()._spill_done(event, out)
        if pins is not None:
            pins.pin_count = count


class GivesUpDuringDiskWork(Wrong):
    def __init__(self, arena: Any) -> None:
        super().__init__(arena)
        self.queue.hopeless = lambda: next(iter(self.queue._queue), None)  # type: ignore[method-assign]


class WaitsForLateOnes(Wrong):
    """Gives up nothing while something comes late."""

    def __init__(self, arena: Any) -> None:
        super().__init__(arena)
        hopeless = self.queue.hopeless
        self.queue.hopeless = lambda: None if self.table.disk_work else hopeless()  # type: ignore[method-assign]


class BlamesTheStore(Wrong):
    """Says that it is full where the disk is."""

    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        if isinstance(instruction, Failed):
            return [replace(instruction, error=ObjectStoreFullError(str(instruction.error)))]
        return [instruction]


class CountsNothingSpilled(Wrong):
    def usage(self) -> StoreUsage:
        return replace(super().usage(), spilled=0)


class CountsTheSpilledAsUsed(Wrong):
    def usage(self) -> StoreUsage:
        usage = super().usage()
        return replace(usage, used=usage.used + usage.spilled)


class ListsNothingSpilled(Wrong):
    def objects(self) -> list[StoredObject]:
        return [row for row in super().objects() if row.state != SPILLED]


class ListsTheSpilledAsSealed(Wrong):
    def objects(self) -> list[StoredObject]:
        return [replace(row, state="sealed") for row in super().objects()]


MUTANTS = [
    *DEAF, LeavesCopies, DeletesCopiesTwice, WritesNothing, WritesThePlaceBeside, LosesCopies,
    TakesFailedForWritten, TakesFailedForRead, TakesLateForFailed, GivesTheMemoryOfLateOnesAway,
    GivesTheMemoryOfDeletedOnesAway, FailsLateOnesOnce, SpillsTheLatest, SpillsWhatIsRead, GivesUpDuringDiskWork,
    WaitsForLateOnes, BlamesTheStore, CountsNothingSpilled, CountsTheSpilledAsUsed, ListsNothingSpilled,
    ListsTheSpilledAsSealed,
]  # fmt: skip


def store(server: type[PlasmaServer]) -> Callable[[], PlasmaStore]:
    """Return what makes stores with a server of that class."""

    class Store(PlasmaStore):
        def open_server(self, capacity: int, directory: str | None = None) -> PlasmaServer:
            return server(open_arena(capacity, directory))

    return Store


def failed(server: type[PlasmaServer]) -> str | None:
    """Return the name of the first test that a store with this server fails."""
    return first_failure(type("Suite", (ObjectStoreConformance,), {"make_store": staticmethod(store(server))}))


@pytest.mark.parametrize("server", MUTANTS, ids=[mutant.__name__ for mutant in MUTANTS])
def test_a_store_that_spills_wrongly_fails_the_suite(server: type[PlasmaServer]) -> None:
    assert failed(server) is not None


def test_the_server_that_they_were_made_from_passes() -> None:
    assert failed(Server) is None
