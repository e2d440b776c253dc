"""Decide which models a replica has: requests for models in, loading and unloading out. No event loop, no models.

At most `limit` models are there at a time, those that are being loaded or unloaded included. A new model replaces the
one that was asked for longest ago, an unused one before one in use. A model in use goes when its users have ended;
until then new requests for it queue up behind the request that replaces it, so that no request waits for ever. A user
that has a model and asks for another one never waits for other users, which might wait for it: the limit is exceeded
then.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the model; then call `loaded` or `failed`."""

    model_id: str


@dataclass(frozen=True, slots=True)
class Unload:
    """Unload the model; then call `unloaded`."""

    model_id: str


@dataclass(frozen=True, slots=True)
class GrantModel:
    """Give the model to the request with this ticket."""

    ticket: int
    model_id: str


Instruction = LoadModel | Unload | GrantModel


@dataclass(frozen=True, slots=True)
class Ask:
    """Holds a request that waits for a model: `user` will have it until `released`."""

    ticket: int
    user: Hashable


class Resident:
    """Represents a model that takes up a place."""

    __slots__ = ("askers", "leaving", "state", "users")

    def __init__(self) -> None:
        self.state: Literal["loading", "loaded", "unloading"] = "loading"
        self.askers: list[Ask] = []
        """The requests that wait until it is loaded."""
        self.users: set[Hashable] = set()
        self.leaving = False
        """Whether it goes when its users have ended."""

    @property
    def idle(self) -> bool:
        """Whether it could go at once."""
        return self.state == "loaded" and not self.users


class ModelTable:
    """Holds the models, their users, and the requests that wait for them. Every method returns instructions."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._residents: dict[str, Resident] = {}  # the one asked for longest ago first
        self._waiting: dict[str, list[Ask]] = {}  # by model, in the order of their arrival
        self._held: dict[Hashable, set[str]] = {}

    def ids(self) -> tuple[str, ...]:
        """Return the models that are loaded and stay, the one asked for longest ago first."""
        return tuple(
            model_id for model_id, each in self._residents.items() if each.state == "loaded" and not each.leaving
        )

    def ask(self, ticket: int, user: Hashable, model_id: str) -> list[Instruction]:
        """Note that `user` wants a model."""
        resident = self._residents.get(model_id)
        ask = Ask(ticket, user)
        if resident is not None and resident.state == "loaded" and (not resident.leaving or user in self._held):
            return [self._granted(model_id, ask)]
        if resident is not None and resident.state == "loading":
            resident.askers.append(ask)
            return []
        self._waiting.setdefault(model_id, []).append(ask)
        return self._progress()

    def withdraw(self, ticket: int) -> list[Instruction]:
        """Note that a request no longer waits. A model that is being loaded is kept all the same."""
        for resident in self._residents.values():
            resident.askers = [ask for ask in resident.askers if ask.ticket != ticket]
        for model_id, asks in list(self._waiting.items()):
            asks[:] = [ask for ask in asks if ask.ticket != ticket]
            if not asks:
                del self._waiting[model_id]
        return self._progress()

    def loaded(self, model_id: str) -> list[Instruction]:
        """Note that a model is loaded."""
        resident = self._residents[model_id]
        resident.state = "loaded"
        asks, resident.askers = resident.askers, []
        return [*[self._granted(model_id, ask) for ask in asks], *self._progress()]

    def failed(self, model_id: str) -> tuple[list[int], list[Instruction]]:
        """Note that a model can't be loaded; return also the tickets of the requests that wait for it."""
        resident = self._residents.pop(model_id)
        return [ask.ticket for ask in resident.askers], self._progress()

    def unloaded(self, model_id: str) -> list[Instruction]:
        """Note that a model is unloaded."""
        del self._residents[model_id]
        return self._progress()

    def released(self, user: Hashable) -> list[Instruction]:
        """Note that `user` uses no model any more."""
        out: list[Instruction] = []
        for model_id in sorted(self._held.pop(user, ())):
            resident = self._residents[model_id]
            resident.users.discard(user)
            if resident.leaving and resident.idle:
                out.append(self._unload(model_id, resident))
        return [*out, *self._progress()]

    def clear(self) -> list[Instruction]:
        """Have all models unloaded that have no user."""
        idle = [(model_id, each) for model_id, each in self._residents.items() if each.idle]
        return [self._unload(model_id, resident) for model_id, resident in idle]

    def _granted(self, model_id: str, ask: Ask) -> GrantModel:
        resident = self._residents.pop(model_id)
        self._residents[model_id] = resident
        resident.users.add(ask.user)
        self._held.setdefault(ask.user, set()).add(model_id)
        return GrantModel(ask.ticket, model_id)

    def _load(self, model_id: str) -> LoadModel:
        resident = self._residents[model_id] = Resident()
        resident.askers = self._waiting.pop(model_id)
        return LoadModel(model_id)

    def _unload(self, model_id: str, resident: Resident) -> Unload:
        resident.state, resident.leaving = "unloading", False
        return Unload(model_id)

    def _progress(self) -> list[Instruction]:
        """Serve the waiting requests that can be served, in the order of their arrival."""
        out: list[Instruction] = [*self._stayed(), *self._loads_with_room()]
        if self.limit is None:
            return out
        going = sum(each.state == "unloading" for each in self._residents.values())
        wanted = len(self._residents) + len(self._waiting) - self.limit
        for model_id, resident in self._residents.items():
            if going >= wanted:
                break
            if resident.idle:
                out.append(self._unload(model_id, resident))
                going += 1
        without_place = [each for each in self._waiting if each not in self._residents][going:]
        for model_id in without_place:
            if any(ask.user in self._held for ask in self._waiting[model_id]):
                out.append(self._load(model_id))
        still = len(self._residents) + len(self._waiting) - self.limit - going
        self._let_leave(still if self._waiting else 0)
        return out

    def _stayed(self) -> list[Instruction]:
        """Keep models in use that no waiting request replaces any more, and serve requests for them since."""
        out: list[Instruction] = []
        while self._waiting:
            first = next(iter(self._waiting))
            resident = self._residents.get(first)
            if resident is None or resident.state != "loaded":
                break
            resident.leaving = False
            out += [self._granted(first, ask) for ask in self._waiting.pop(first)]
        return out

    def _loads_with_room(self) -> list[Instruction]:
        out: list[Instruction] = []
        for model_id in list(self._waiting):
            if self.limit is not None and len(self._residents) >= self.limit:
                break
            if model_id not in self._residents:
                out.append(self._load(model_id))
        return out

    def _let_leave(self, count: int) -> None:
        """Mark as many models in use as must go for waiting requests, and no others."""
        for resident in self._residents.values():
            resident.leaving = resident.state == "loaded" and count > 0
            count -= resident.leaving

    def validate(self) -> None:
        """Raise AssertionError if the table is not consistent."""
        for model_id, resident in self._residents.items():
            for user in resident.users:
                assert model_id in self._held[user], f"{user} does not know that it has {model_id}"
            assert not resident.users or resident.state == "loaded", f"{model_id} is used, but {resident.state}"
            assert not resident.askers or resident.state == "loading", f"who asked for {model_id} was forgotten"
        for user, model_ids in self._held.items():
            assert model_ids, f"{user} has nothing"
            assert all(user in self._residents[model_id].users for model_id in model_ids), f"{user} has what is gone"
        if self._waiting and self.limit is not None:
            going = [each for each in self._residents.values() if each.leaving or each.state != "loaded"]
            assert going, f"{list(self._waiting)} wait for nothing"
