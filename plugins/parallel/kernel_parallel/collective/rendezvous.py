"""Where members of a group meet: a named actor that tells them of each other, and hears who waits for whom."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import kernel
from kernel.exceptions import ActorError, GetTimeoutError, TaskError
from kernel_parallel.collective.errors import GroupError, RankTimeoutError, names_of
from kernel_parallel.collective.stall_diagnosis import Note, culprits
from kernel_spec.dataclass import dataclass

_FRESH_SECONDS = 3.0
_MARGIN_SECONDS = 10.0
_LOOK_SECONDS = 0.5
"""How often a member that waits looks whether it waits where the others will come."""


@dataclass(slots=True)
class Declared:
    """What the driver declared: the rank of each actor, by its id, and how the group is to be made."""

    ranks: Mapping[str, int]
    size: int
    backend: str
    timeout: float


@dataclass(slots=True)
class Formation:
    """A group that is being formed, or was: where its members are."""

    number: int
    size: int
    backend: str
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    tickets: dict[int, object] = field(default_factory=dict)
    addresses: dict[int, Any] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    notes: dict[int, tuple[frozenset[int], str, float]] = field(default_factory=dict)
    operations: dict[int, int] = field(default_factory=dict)


class Coordinator:
    """The actor behind a group. All its methods are coroutines: it never blocks."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._declared: Declared | None = None
        self._formations: list[Formation] = []
        self._made = 0

    async def itself(self) -> Any:
        """Return a handle that keeps this actor, which one that was found by its name does not."""
        return kernel.get_runtime_context().current_actor

    async def declare(self, declared: Declared) -> None:
        """Take what the driver declares."""
        self._declared = declared

    async def declared(self) -> Declared | None:
        """Return what the driver declared, if it did."""
        return self._declared

    async def join(
        self, rank: int, size: int, backend: str, address: Any, timeout: float, left: float
    ) -> tuple[int, list[Any], bytes]:
        """Wait for all members; return the number of the formation, everybody's address in order, and the secret.

        left: how many seconds of the member's `timeout` are left.
        """
        formation = self._formation(size, backend)
        ticket = formation.tickets[rank] = object()
        formation.addresses[rank] = address
        if len(formation.tickets) == size:
            formation.complete.set()
        try:
            await asyncio.wait_for(formation.complete.wait(), left)
        except asyncio.TimeoutError:
            missing = [other for other in range(size) if other not in formation.tickets]
            if formation.tickets.get(rank) is ticket:
                del formation.tickets[rank]
            raise RankTimeoutError(
                f"{names_of(missing)} of group {self._group!r} did not come within {timeout:g} s (rank {rank} of "
                f"{size} waited); every member calls init_collective_group() with the same world_size and group_name, "
                "and all must be running at the same time",
                missing,
            ) from None
        if formation.tickets[rank] is not ticket:
            raise GroupError(f"another process came as rank {rank} of group {self._group!r}; give each its own rank")
        return formation.number, [formation.addresses[other] for other in range(size)], formation.secret

    def _formation(self, size: int, backend: str) -> Formation:
        """Return the formation that is gathering members, a new one if there is none."""
        if not self._formations or self._formations[-1].complete.is_set():
            self._made += 1
            self._formations = [*self._formations[-1:], Formation(self._made, size, backend)]
        formation = self._formations[-1]
        if not formation.tickets:
            formation.size, formation.backend = size, backend
        if (formation.size, formation.backend) != (size, backend):
            raise GroupError(
                f"members of group {self._group!r} disagree: {formation.size} members on {formation.backend!r}, or "
                f"{size} on {backend!r}?"
            )
        return formation

    async def note(self, number: int, rank: int, operation: str, awaited: Iterable[int]) -> None:
        """Hear that a rank waits for others."""
        if formation := self._of(number):
            formation.notes[rank] = (frozenset(awaited), operation, time.monotonic())

    async def to_blame(self, number: int, awaited: Iterable[int]) -> list[int]:
        """Return for whom the awaited ranks wait in the end."""
        formation = self._of(number)
        if formation is None:
            return sorted(awaited)
        now = time.monotonic()
        notes = {rank: Note(ranks, words, now - at) for rank, (ranks, words, at) in formation.notes.items()}
        return culprits(awaited, notes, _FRESH_SECONDS)

    async def failed_in(self, number: int, rank: int, operation: int, grace: float) -> list[int]:
        """Hear that a rank failed in its `operation`-th operation; return who has not said so after `grace` seconds."""
        formation = self._of(number)
        if formation is None:
            return []
        formation.operations[rank] = operation
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and len(formation.operations) < formation.size:
            await asyncio.sleep(0.02)
        return [other for other in range(formation.size) if formation.operations.get(other, -1) < operation]

    def _of(self, number: int) -> Formation | None:
        return next((one for one in self._formations if one.number == number), None)


def coordinator_name(group: str) -> str:
    """Return the name of the actor behind a group."""
    return f"kernel.parallel.collective/{group}"


def coordinator_of(group: str) -> Any:
    """Return the actor behind a group, which lives while its members have it; it is made if it is not there.

    Raises ActorDiedError when it was found just before its last member went.
    """
    actor = kernel.remote(Coordinator)
    found = actor.options(name=coordinator_name(group), get_if_exists=True, max_concurrency=10_000).remote(group)
    return kernel.get(found.itself.remote())


@dataclass(slots=True)
class Meeting:
    """The knowledge of a member once all are there."""

    coordinator: Any
    number: int
    addresses: list[Any]
    secret: bytes


def meet(group: str, rank: int, size: int, backend: str, address: Any, timeout: float) -> Meeting:
    """Wait for all members of a group. Raises RankTimeoutError, which names those who did not come, after `timeout`."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            coordinator = coordinator_of(group)
            left = max(0.1, deadline - time.monotonic())
            joined = coordinator.join.remote(rank, size, backend, address, timeout, left)
            told = _wait(group, coordinator, joined, left + _MARGIN_SECONDS)
        except ActorError as error:
            # It ended with the process that had made it; somebody makes it again.
            if time.monotonic() >= deadline or isinstance(error, TaskError):
                raise
            time.sleep(0.05)
            continue
        if told is not None:
            return Meeting(coordinator, *told)


def _wait(
    group: str, coordinator: Any, joined: kernel.ObjectRef, seconds: float
) -> tuple[int, list[Any], bytes] | None:
    """Return what the coordinator tells when all are there; None if it is not the one that others find by now.

    One that was found just before its last handle went lives on with the call, and without its name: nobody else comes.
    """
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            told: tuple[int, list[Any], bytes] = kernel.get(joined, timeout=max(0.0, min(left, _LOOK_SECONDS)))
            return told
        except GetTimeoutError:
            if left <= _LOOK_SECONDS:
                raise
        try:
            if kernel.get_actor(coordinator_name(group)) != coordinator:
                return None
        except ValueError:
            return None


class CoordinatorWatch:
    """Tells the coordinator that this member waits, and asks it who is to blame (see `mesh.Watch`)."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self._rank = rank

    def waiting(self, operation: str, ranks: Iterable[int]) -> None:
        """Say it, without waiting for an answer."""
        try:
            self._meeting.coordinator.note.remote(self._meeting.number, self._rank, operation, list(ranks))
        except ActorError:
            return

    def to_blame(self, ranks: Iterable[int]) -> list[int]:
        """Ask; the awaited ranks themselves if the coordinator is gone."""
        try:
            asked = self._meeting.coordinator.to_blame.remote(self._meeting.number, list(ranks))
            found: list[int] = kernel.get(asked, timeout=_MARGIN_SECONDS)
        except (ActorError, TimeoutError):
            return sorted(ranks)
        return found
