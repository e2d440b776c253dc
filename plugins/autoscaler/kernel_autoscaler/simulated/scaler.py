"""The autoscaler for `kernel simulate`: a scheduler is tried on nodes that come and go as this says."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_autoscaler.cli.load import SimulatedLoad, load_from
from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.snapshot import snapshot_of
from kernel_autoscaler.simulated.cloud import SimulatedCloud
from kernel_spec.errors import NodeProviderError
from kernel_spec.resources import UNIT, quantities

LIST_SECONDS = 10.0
FLAP_SHARE = 0.5
"""The part of the idle time within which a machine must not be made of a kind of which one was given back."""
Step = tuple[Any, ...]


class Scaler:
    """Runs the autoscaler over a cloud that only exists in virtual time.

    It tells what `kernel_simulation` is to do in plain tuples: that is all that the two know of each other.
    """

    def __init__(self, load: SimulatedLoad, seed: int) -> None:
        self._now = 0.0
        self._settings = load.settings
        self._cloud = SimulatedCloud(load.kinds, lambda: self._now, random.Random(seed), load.capacity)
        self._autoscaler = Autoscaler(load.kinds, load.settings, "simulated")
        self._kinds = load.kinds
        self._list_at = 0.0
        self._busy: set[str] = set()
        self._waiting = 0
        self._demand_grew_at = 0.0
        self._given_back: dict[str, float] = {}
        self._busy_ended = self._flaps = 0

    def look(self, demand: Mapping[str, Any], now: float) -> Sequence[Step]:
        """Return what is to be done, given what `kernel.demand()` would say at `now` (in seconds)."""
        self._now = now
        self._busy = {row["provider_id"] for row in demand["nodes"] if row["idle_seconds"] is None}
        waiting = sum(row["requests"] + row["backlog"] for row in demand["shapes"]) + len(demand["groups"])
        if waiting > self._waiting:
            self._demand_grew_at = now
        self._waiting = waiting
        steps: list[Step] = []
        self._tell(events.Observed(snapshot_of(demand)), steps)
        if now >= self._list_at:
            self._list(steps)
        return steps

    @property
    def machines(self) -> int:
        """How many machines there are, also those that start."""
        return len(self._cloud.living())

    @property
    def prices(self) -> Mapping[str, float]:
        """The least price per hour of one unit of each resource."""
        found: dict[str, float] = {}
        for kind in self._kinds:
            for name, units in kind.resources.items():
                if units:
                    found[name] = min(found.get(name, float("inf")), kind.cost * UNIT / units)
        return found

    def report(self) -> Mapping[str, Any]:
        """Return what it came to until the latest look. Costs are in the unit of the prices."""
        machines = self._cloud.machines.values()
        return {
            "node_hours": sum((one.ended_at or self._now) - one.made_at for one in machines) / 3600,
            "cost": self._autoscaler.spent,
            "idle_cost": self._autoscaler.spent_idle,
            "launched": len(machines),
            "busy_ended": self._busy_ended,
            "flaps": self._flaps,
        }

    # -- the shell -------------------------------------------------------------------------------------------------

    def _tell(self, event: events.Event, steps: list[Step]) -> None:
        for step in self._autoscaler.handle(event, self._now):
            self._do(step, steps)

    def _list(self, steps: list[Step]) -> None:
        self._list_at = self._now + LIST_SECONDS
        self._tell(events.Listed(self._cloud.list()), steps)

    def _do(self, step: events.Instruction, steps: list[Step]) -> None:
        match step:
            case events.MakeMachines():
                self._create(step, steps)
            case events.Terminate(ids):
                self._busy_ended += len(self._busy.intersection(ids))
                self._cloud.terminate(ids)
                steps += [("end", id) for id in ids]
            case events.Drain(node):
                machine = next(one for one in self._autoscaler.machines.machines.values() if one.node == node)
                self._given_back[machine.kind] = self._now
                steps.append(("drain", node))
            case events.KeepNode(node):
                steps.append(("keep", node))
            case events.ListMachines():
                self._list_at = self._now
            case events.LookAgain(seconds):
                steps.append(("look", seconds))

    def _create(self, step: events.MakeMachines, steps: list[Step]) -> None:
        given_back = self._given_back.get(step.kind)
        if given_back is not None and self._demand_grew_at <= given_back:
            self._flaps += self._now - given_back < FLAP_SHARE * self._settings.idle_seconds
        try:
            ids = self._cloud.create(step.kind, step.count, {}, step.token if self._settings.repeats else "")
        except NodeProviderError as error:
            self._tell(events.CreateFailed(step.token, error.code, str(error), error.retry_after), steps)
            return
        kind = next(kind for kind in self._kinds if kind.name == step.kind)
        for id in ids:
            boots = self._cloud.machines[id].runs_at - self._now
            steps.append(("join", id, quantities(kind.resources), dict(kind.labels), boots))
        self._tell(events.Created(step.token, tuple(ids)), steps)


def make_scaler(file: str, seed: int) -> Scaler:
    """Return the autoscaler that a TOML file describes, as for `kernel autoscaler simulate`; its work is not used.

    Raises OptionError, which says what is wrong in it.
    """
    return Scaler(load_from(Path(file)), seed)
