"""Run an autoscaler over a cloud and a cluster in virtual time, and report what that cost."""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.simulated.cloud import SimulatedCloud
from kernel_autoscaler.simulated.cluster import SimulatedCluster, SimulatedWork
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError

LOOK_SECONDS, LIST_SECONDS = 1.0, 10.0


@dataclass(slots=True)
class SimulatedOutcome:
    """What a run came to. Costs are in the unit of prices, times in seconds."""

    cost: float = 0.0
    idle_cost: float = 0.0
    launched: int = 0
    busy_ended: int = 0
    """Machines that were terminated while something ran there, without an announcement by the provider."""
    flaps: int = 0
    """Machines that were ordered, without any new demand, soon after one of their kind was drained."""
    served: int = 0
    cut_off: int = 0
    """Pieces of work that ran on machines that were ended, and were run again."""
    waits: list[float] = field(default_factory=list)
    first_order: float | None = None
    most_machines: int = 0


class SimulatedRun:
    """One run. `wrap` puts something between the autoscaler and the cloud.

    `never_joins` says which machines never join, by id, and `dies` before which steps the head dies.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        settings: Settings,
        cloud: Callable[[Callable[[], float]], SimulatedCloud],
        work: Iterable[SimulatedWork],
        fixed: Sequence[Mapping[str, int]] = ({},),
        wrap: Callable[[SimulatedCloud], Any] = lambda cloud: cloud,
        never_joins: Callable[[str], bool] = lambda id: False,
        dies: Callable[[events.Instruction], bool] = lambda step: False,
    ) -> None:
        self.now = 0.0
        self._kinds, self._settings = kinds, settings
        self.cloud = cloud(lambda: self.now)
        self.provider = wrap(self.cloud)
        self.cluster = SimulatedCluster(kinds, [dict(total) for total in fixed])
        self.autoscaler = Autoscaler(kinds, settings, "run")
        self.outcome = SimulatedOutcome()
        self._never_joins = never_joins
        self._dies = dies
        self._journal: dict[str, Any] = self.autoscaler.plain()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._drained: dict[str, float] = {}
        self._demand_changed = 0.0
        for one in work:
            self._at(one.at, lambda one=one: self._come(one))  # type: ignore[misc]

    # -- time ------------------------------------------------------------------------------------------------------

    def _at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._numbers), what))

    def until(self, end: float) -> SimulatedOutcome:
        """Run until a time, and return the outcome so far."""
        self._look()
        self._list()
        while self._agenda and self._agenda[0][0] <= end:
            self.now, _, what = heapq.heappop(self._agenda)
            what()
        self.now = end
        self._agenda = [one for one in self._agenda if one[2] not in (self._look, self._list)]
        heapq.heapify(self._agenda)
        self.outcome.cost, self.outcome.idle_cost = self.autoscaler.spent, self.autoscaler.spent_idle
        self.outcome.served, self.outcome.waits = self.cluster.served, self.cluster.waits
        self.outcome.cut_off = self.cluster.cut_off
        self.outcome.launched = len(self.cloud.machines)
        return self.outcome

    def stop(self, seconds: float = 600.0) -> None:
        """End the cluster, as `kernel down` does, and let so many seconds pass."""
        self._tell(events.StopAll())
        self.until(self.now + seconds)

    def _come(self, work: SimulatedWork) -> None:
        self._demand_changed = self.now
        self.cluster.come(work)
        self._observe()

    def _look(self) -> None:
        self._at(self.now + LOOK_SECONDS, self._look)
        self._observe()

    def _list(self) -> None:
        self._at(self.now + LIST_SECONDS, self._list)
        self._ask_for_list()

    # -- the shell -------------------------------------------------------------------------------------------------

    def _observe(self) -> None:
        joins = [one.id for one in self.cloud.living() if not self._never_joins(one.id)]
        self.cluster.follow(self.cloud.living(), joins, self.now)
        self.cluster.advance(self.now)
        for event in self.cloud.events():
            self._tell(events.InterruptionAnnounced(event.id, event.seconds, event.reason))
            self._at(self.now + event.seconds, lambda id=event.id: self.cloud.terminate([id]))  # type: ignore[misc]
        self.outcome.most_machines = max(self.outcome.most_machines, len(self.cloud.living()))
        self._tell(events.Observed(self.cluster.snapshot(self.now)))

    def _ask_for_list(self) -> None:
        try:
            listed = self.provider.list()
        except NodeProviderError:
            return
        self._tell(events.Listed(listed))

    def _tell(self, event: events.Event) -> None:
        self._carry_out(self.autoscaler.handle(event, self.now))

    def _carry_out(self, steps: Iterable[events.Instruction]) -> None:
        self._journal = copy.deepcopy(self.autoscaler.plain())
        for step in steps:
            if self._dies(step):
                self._restart()
                return
            self._do(step)

    def _restart(self) -> None:
        """The head died before it carried out a step, and is started again with what its journal has."""
        self.autoscaler = Autoscaler(self._kinds, self._settings, "run")
        self._carry_out(self.autoscaler.restore(self._journal))

    def _do(self, step: events.Instruction) -> None:
        match step:
            case events.MakeMachines():
                self._create(step)
            case events.Drain(node):
                kind = self.cloud.machines[self.cluster.nodes[node].machine].kind if node in self.cluster.nodes else ""
                self._drained[kind] = self.now
                self.cluster.drain(node, True)
            case events.KeepNode(node):
                self.cluster.drain(node, False)
            case events.Terminate(ids):
                self._terminate(ids)
            case events.ListMachines():
                self._ask_for_list()
            case events.LookAgain(seconds):
                self._at(self.now + max(seconds, 0.001), self._observe)

    def _create(self, step: events.MakeMachines) -> None:
        if self.outcome.first_order is None:
            self.outcome.first_order = self.now
        drained = self._drained.get(step.kind)
        if drained is not None and self._demand_changed <= drained and self.now - drained < 150.0:
            self.outcome.flaps += 1
        token = {"token": step.token} if self._settings.repeats else {}
        try:
            ids = self.provider.create(step.kind, step.count, {}, **token)
        except NodeProviderError as error:
            self._tell(events.CreateFailed(step.token, error.code, str(error), error.retry_after))
        else:
            self._tell(events.Created(step.token, tuple(ids)))

    def _terminate(self, ids: Sequence[str]) -> None:
        for id in ids:
            machine = self.autoscaler.machines.machines.get(id)
            taken = machine is not None and machine.interrupted
            if self.cluster.is_busy(id) and not taken and not self.autoscaler.stopping:
                self.outcome.busy_ended += 1
        try:
            self.provider.terminate(ids)
        except NodeProviderError as error:
            self._tell(events.TerminateFailed(tuple(ids), str(error)))
