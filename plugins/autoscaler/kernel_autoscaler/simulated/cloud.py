"""A provider of machines that do not exist: they boot in virtual time, and of some kinds there are only so many."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_autoscaler.core.kinds import Kind
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, INVALID, Interruption, KindDetails, ProvidedNode
from kernel_spec.resources import quantities


@dataclass(slots=True)
class SimulatedMachine:
    """One machine: when it was made, when it runs, and when it was terminated (None: not yet)."""

    id: str
    kind: str
    made_at: float
    runs_at: float
    ended_at: float | None = None


class SimulatedCloud:
    """Makes machines of `kinds` that run after about their usual time.

    `clock` returns the virtual time in seconds, `dice` varies boot times (by a quarter, up or down). `capacity` says
    how many of a kind can be had at a time. A terminated machine is listed as stopping for `stop_seconds`.
    """

    name = "simulated"

    def __init__(
        self,
        kinds: Sequence[Kind],
        clock: Callable[[], float],
        dice: random.Random,
        capacity: Mapping[str, int] | None = None,
        stop_seconds: float = 5.0,
    ) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self._clock = clock
        self._dice = dice
        self._stop_seconds = stop_seconds
        self._tokens: dict[str, list[str]] = {}
        self._announced: list[Interruption] = []
        self.capacity = dict(capacity or {})
        self.machines: dict[str, SimulatedMachine] = {}
        """All machines that there ever were."""

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the kinds and their resources."""
        return {name: quantities(kind.resources) for name, kind in self._kinds.items()}

    def describe(self, kind: str) -> KindDetails:
        """Return what a kind costs."""
        known = self._known(kind)
        return KindDetails(known.price, known.spot, known.zone, known.labels, known.boot_seconds)

    def list(self) -> Sequence[ProvidedNode]:
        """Return the machines that have not ended."""
        now = self._clock()
        return [ProvidedNode(one.id, one.kind, self._state(one, now)) for one in self.living()]

    def living(self) -> Sequence[SimulatedMachine]:
        """Return the machines that are there, also those that stop."""
        now = self._clock()
        return [
            one for one in self.machines.values() if one.ended_at is None or now < one.ended_at + self._stop_seconds
        ]

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Make machines: fewer than `count` where there is capacity for no more. Raises NodeProviderError for none."""
        if token and token in self._tokens:
            return self._tokens[token]
        known, now = self._known(kind), self._clock()
        if count < 1:
            raise NodeProviderError(f"{count} machines of kind {kind!r} were asked for, not 1 up", code=INVALID)
        there = sum(one.kind == kind and one.ended_at is None for one in self.machines.values())
        count = min(count, max(0, self.capacity.get(kind, there + count) - there))
        if not count:
            raise NodeProviderError(f"there is no capacity for machines of kind {kind!r} now", code=CAPACITY)
        ids = []
        for _ in range(count):
            id = f"m-{len(self.machines) + 1}"
            boot = known.boot_seconds * self._dice.uniform(0.75, 1.25)
            self.machines[id] = SimulatedMachine(id, kind, now, now + boot)
            ids.append(id)
        if token:
            self._tokens[token] = ids
        return ids

    def terminate(self, ids: Sequence[str]) -> None:
        """End machines; unknown ids are ignored."""
        for id in ids:
            machine = self.machines.get(id)
            if machine is not None and machine.ended_at is None:
                machine.ended_at = self._clock()

    def events(self) -> Sequence[Interruption]:
        """Return the announced interruptions, each once."""
        announced, self._announced = self._announced, []
        return announced

    def interrupt(self, id: str, seconds: float) -> None:
        """Announce that a machine is taken away in so many seconds."""
        self._announced.append(Interruption(id, seconds, "somebody pays more for it"))

    def _known(self, kind: str) -> Kind:
        if kind not in self._kinds:
            known = ", ".join(self._kinds)
            raise NodeProviderError(f"there is no kind {kind!r}; the kinds are {known}", code=INVALID)
        return self._kinds[kind]

    def _state(self, machine: SimulatedMachine, now: float) -> str:
        if machine.ended_at is not None:
            return "stopping"
        return "running" if now >= machine.runs_at else "starting"
