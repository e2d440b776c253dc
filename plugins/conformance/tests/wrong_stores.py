"""Object stores whose half in the node agent is wrong. They never spill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernel.defaults.object_store import LocalObjectServer
from kernel_spec.errors import ObjectLostError, ObjectStoreError, ObjectStoreFullError
from kernel_spec.ids import ObjectId
from kernel_spec.store import (
    Abort,
    ClientLeft,
    Create,
    Delete,
    Failed,
    Keep,
    Location,
    Pin,
    ReleaseIdle,
    Reply,
    Seal,
    StoredObject,
    StoreEvent,
    StoreInstruction,
    StoreUsage,
    Unpin,
)


class Server(LocalObjectServer):
    """Takes in `heard(event)`, and answers with what `said(instruction)` makes of each instruction."""

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        heard = self.heard(event)
        if heard is None:
            return []
        return [each for told in super().handle(heard) for each in self.said(told)]

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        """Return what to take in instead of an event."""
        return event

    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        """Return what to answer instead of an instruction."""
        return [instruction]


# -- events that are not taken in ----------------------------------------------------------------------------------


def deaf_to(kind: type) -> type[LocalObjectServer]:
    """Return a server that never hears of events of one kind."""

    class Deaf(Server):
        def heard(self, event: StoreEvent) -> StoreEvent | None:
            return None if isinstance(event, kind) else event

    Deaf.__name__ = f"DeafTo{kind.__name__}"
    return Deaf


DEAF = [deaf_to(kind) for kind in (ClientLeft, Create, Seal, Abort, Pin, Unpin, Keep, Delete)]


class PinsNothingWithTheSeal(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, pin=False) if isinstance(event, Seal) else event


class PinsWithEverySeal(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, pin=True) if isinstance(event, Seal) else event


class DeletesTheFirst(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, objects=event.objects[:1]) if isinstance(event, Delete) else event


class KnowsNoWeak(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, weak=False) if isinstance(event, Create) else event


class AllAreWeak(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, weak=True) if isinstance(event, Create) else event


class CreatorsOwn(Server):
    """Takes who writes an object for who owns it."""

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, owner=event.client) if isinstance(event, Create) else event


class FailsForStrangers(Server):
    """Raises for objects that it doesn't know."""

    kinds: type | tuple[type, ...] = (Seal, Abort, Unpin, Keep)

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        if isinstance(event, self.kinds):
            assert any(each.create.object == event.object for each in self._objects)
        return event


class FailsForStrangeSeals(FailsForStrangers):
    kinds = Seal


class FailsForStrangeAborts(FailsForStrangers):
    kinds = Abort


# -- answers -------------------------------------------------------------------------------------------------------


class AnswersTwice(Server):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [instruction] * (2 if isinstance(instruction, Reply) else 1)


class NeverFails(Server):
    """Leaves unanswered what can't be had."""

    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [] if isinstance(instruction, Failed) else [instruction]


class AnswersTheDead(Server):
    """Lets those wait on who are gone."""

    def _client_left(self, client: Any, out: list[StoreInstruction]) -> None:
        waiting = list(self._waiting)
        super()._client_left(client, out)
        for each in waiting:
            if each not in self._waiting:
                self._objects.append(each)
                self._waiting.append(each)


class AsksForNoRelease(Server):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        return [] if isinstance(instruction, ReleaseIdle) else [instruction]


class AsksForReleaseAlways(Server):
    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        return [*(each for each in super().handle(event) if not isinstance(each, ReleaseIdle)), ReleaseIdle()]


class GivesUpNothing(Server):
    def give_up_waiting(self) -> list[StoreInstruction]:
        return []


class GivesUpAtOnce(Server):
    """Lets nobody wait for room."""

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        out = super().handle(event)
        while self._waiting:
            out += self.give_up_waiting()
        return out


class _OtherError(Server):
    """Fails with another error than its contract says."""

    def give_up_waiting(self) -> list[StoreInstruction]:
        return [each for told in super().give_up_waiting() for each in self.said(told)]


class SaysNotThatItIsFull(_OtherError):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        if isinstance(instruction, Failed) and isinstance(instruction.error, ObjectStoreFullError):
            return [replace(instruction, error=ObjectStoreError(str(instruction.error)))]
        return [instruction]


class SaysAlwaysThatItIsFull(_OtherError):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        if isinstance(instruction, Failed) and not isinstance(instruction.error, ObjectLostError):
            return [replace(instruction, error=ObjectStoreFullError(str(instruction.error)))]
        return [instruction]


class SaysNotWhatIsLost(_OtherError):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        if isinstance(instruction, Failed) and isinstance(instruction.error, ObjectLostError):
            return [replace(instruction, error=ObjectStoreError(str(instruction.error)))]
        return [instruction]


class TakesAnySize(Server):
    def heard(self, event: StoreEvent) -> StoreEvent | None:
        return replace(event, size=max(event.size, 1)) if isinstance(event, Create) else event


class LetsTooLargeOnesWait(Server):
    def _create(self, event: Create, out: list[StoreInstruction]) -> None:
        capacity, self._capacity = self._capacity, 1 << 40
        super()._create(event, out)
        self._capacity = capacity


class ServesTheSealAlone(Server):
    """Lets nobody wait for a seal: a pin of what is being written fails."""

    def heard(self, event: StoreEvent) -> StoreEvent | None:
        if isinstance(event, Pin):
            each = self._find(event.object)
            if each is not None and not each.sealed:
                return replace(event, object=ObjectId(b"?" * len(event.object)))
        return event


class ReadsWhatIsWritten(Server):
    """Answers a pin of what is being written."""

    def _pin(self, event: Pin, out: list[StoreInstruction]) -> None:
        each = self._find(event.object)
        if each is not None and not each.sealed and each.location is not None:
            out.append(Reply(event.client, event.request, (each.location, each.create.size)))
            return
        super()._pin(event, out)


class SaysNoSize(Server):
    def said(self, instruction: StoreInstruction) -> Sequence[StoreInstruction]:
        if isinstance(instruction, Reply) and isinstance(instruction.value, tuple):
            return [replace(instruction, value=(instruction.value[0], instruction.value[1] + 1))]
        return [instruction]


class LeavesReadersOfTheAborted(Server):
    """Never answers those who wait for what is given up."""

    def _abandon(self, each: Any, out: list[StoreInstruction]) -> None:
        super()._abandon(each, [])


# -- pins ----------------------------------------------------------------------------------------------------------


class PinsOnce(Server):
    """Counts the pins of one process as one."""

    def _unpin(self, client: Any, object: ObjectId) -> None:
        for each in self._objects:
            if each.create.object == object and each.pins[client]:
                each.pins[client] = 1
        super()._unpin(client, object)


class UnpinsForAll(Server):
    """Takes one unpin for everybody's."""

    def _unpin(self, client: Any, object: ObjectId) -> None:
        for each in list(self._objects):
            if each.create.object == object and each.pins:
                each.pins = Counter()
                self._forget_if_done(each)


class DeletesWhatIsRead(Server):
    def _delete(self, object: ObjectId) -> None:
        each = self._find(object)
        if each is not None and each.sealed:
            self._forget(each)
            return
        super()._delete(object)


class KeepsWhatWasRead(Server):
    """Leaves a deleted object there when its last pin goes."""

    def _unpin(self, client: Any, object: ObjectId) -> None:
        for each in self._objects:
            if each.create.object == object and each.pins[client]:
                each.pins[client] -= 1
                each.pins += Counter()
                return


class KeepsTheOlder(Server):
    """Lets the older of two creations have the name."""

    def _create(self, event: Create, out: list[StoreInstruction]) -> None:
        older = self._find(event.object)
        super()._create(event, out)
        if older is not None and older in self._objects:
            older.deleted = False
            self._objects[-1].deleted = True


class ReadersLeaveNothing(Server):
    """Leaves the pins of those who are gone."""

    def _client_left(self, client: Any, out: list[StoreInstruction]) -> None:
        pins = {id(each): each.pins[client] for each in self._objects if each.pins[client]}
        for each in self._objects:
            each.pins[client] = 0
        kept = [each for each in self._objects if id(each) in pins]
        super()._client_left(client, out)
        for each in kept:
            if each in self._objects:
                each.pins[client] = pins[id(each)]


class DropsWhatIsRead(Server):
    """Takes the memory of weak objects that somebody reads."""

    def _drop_weak(self, size: int) -> None:
        for each in list(self._objects):
            if self._free() < size and each.create.weak and each.sealed:
                self._dropped[each.create.object] = each.create.owner
                self._forget(each)


class DropsAll(Server):
    """Takes the memory of what is not weak."""

    def _drop_weak(self, size: int) -> None:
        for each in list(self._objects):
            if self._free() < size and each.unused:
                self._dropped[each.create.object] = each.create.owner
                self._forget(each)


# -- counts --------------------------------------------------------------------------------------------------------


class CountsThePinned(Server):
    def usage(self) -> StoreUsage:
        return replace(super().usage(), used=super().usage().pinned)


class CountsNothingPinned(Server):
    def usage(self) -> StoreUsage:
        return replace(super().usage(), pinned=0)


class CountsNobodyWaiting(Server):
    def usage(self) -> StoreUsage:
        return replace(super().usage(), waiting=0)


class ListsAsTheyCame(Server):
    def objects(self) -> list[StoredObject]:
        rows = {row.object: row for row in super().objects()}
        return [rows[each.create.object] for each in self._held()]


class ListsTheSealed(Server):
    def objects(self) -> list[StoredObject]:
        return [row for row in super().objects() if row.state == "sealed"]


class ListsNoPins(Server):
    def objects(self) -> list[StoredObject]:
        return [replace(row, pins={}) for row in super().objects()]


class ListsNoWeak(Server):
    def objects(self) -> list[StoredObject]:
        return [replace(row, weak=False) for row in super().objects()]


# -- memory --------------------------------------------------------------------------------------------------------


class GivesOnePlace(Server):
    """Has all objects in one place."""

    def handle(self, event: StoreEvent) -> list[StoreInstruction]:
        out = super().handle(event)
        return [self._first(each) for each in out]

    def _first(self, instruction: StoreInstruction) -> StoreInstruction:
        if not isinstance(instruction, Reply):
            return instruction
        size = instruction.value[1:] if isinstance(instruction.value, tuple) else ()
        return replace(instruction, value=(0, *size) if size else 0)


class ViewsNothing(Server):
    def view(self, location: Location, size: int) -> memoryview:
        return memoryview(bytearray(size))


SERVERS = [
    *DEAF, PinsNothingWithTheSeal, PinsWithEverySeal, DeletesTheFirst, KnowsNoWeak, AllAreWeak, CreatorsOwn,
    FailsForStrangers, FailsForStrangeSeals, FailsForStrangeAborts,
    AnswersTwice, NeverFails, AnswersTheDead, AsksForNoRelease, AsksForReleaseAlways, GivesUpNothing, GivesUpAtOnce,
    SaysNotThatItIsFull, SaysAlwaysThatItIsFull, SaysNotWhatIsLost, TakesAnySize, LetsTooLargeOnesWait,
    ServesTheSealAlone, ReadsWhatIsWritten, SaysNoSize, LeavesReadersOfTheAborted,
    PinsOnce, UnpinsForAll, DeletesWhatIsRead, KeepsWhatWasRead, KeepsTheOlder, ReadersLeaveNothing, DropsWhatIsRead,
    DropsAll,
    CountsThePinned, CountsNothingPinned, CountsNobodyWaiting, ListsAsTheyCame, ListsTheSealed, ListsNoPins,
    ListsNoWeak, GivesOnePlace, ViewsNothing,
]  # fmt: skip
