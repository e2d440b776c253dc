"""Placement groups on the head: carry out what `head.groups` decides, and answer questions about groups."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_processes.head import groups as control
from kernel_processes.head.actor_service import ActorService
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.job_service import JobService
from kernel_processes.head.journal import Journal
from kernel_processes.head.lease_answers import LeaseAnswers
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_processes.protocol.pickled import Pickled
from kernel_spec import observers
from kernel_spec.errors import OptionError, PlacementGroupRemovedError
from kernel_spec.ids import GroupId, JobId, ProcessId
from kernel_spec.placement import conditions
from kernel_spec.resources import Amounts, quantities
from kernel_spec.scheduling import Bundle, GroupHeld, GroupRequest, GroupRequested

REMOVED_BY_HAND = "it was removed by kernel.remove_placement_group()"


class GroupService:
    """The shell around the table of groups. Runs in the head's loop. Groups are named by id, in hexadecimal."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        cluster: ClusterTable,
        table: control.GroupTable,
        jobs: JobService,
        journal: Journal,
        leases: LeaseManager,
        answers: LeaseAnswers,
        actors: ActorService,
        observation: Observation,
    ) -> None:
        self.table = table
        self._cluster = cluster
        self._jobs = jobs
        self._journal = journal
        self._leases = leases
        self._answers = answers
        self._actors = actors
        self._observation = observation
        self._waiting: dict[GroupId, list[tuple[ProcessRecord, Deferred]]] = {}
        dispatcher.methods |= {
            "create_placement_group": self._create,
            "remove_placement_group": self._remove,
            "find_placement_group": self._find,
            "placement_group_ready": self._ready,
            "placement_groups": lambda caller, id="": Pickled.of(self.rows(id)),
            "explain_placement_group": lambda caller, id: self.explain(_group(id)),
        }

    # -- what processes ask for ------------------------------------------------------------------------------------

    def _create(
        self,
        caller: ProcessRecord,
        id: str,
        bundles: list[Amounts],
        strategy: str,
        name: str,
        namespace: str,
        detached: bool,
        hints: bytes,
        labels: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Create a group. Raises NameTakenError, and OptionError for invalid conditions on labels."""
        try:
            for wanted in labels:
                conditions(wanted)
        except ValueError as error:
            raise OptionError(f"bundle_label_selector: {error}") from None
        known = pickle.loads(hints)
        request = GroupRequest(_group(id), caller.job, tuple(bundles), strategy, name, known, caller.node.id, labels)
        self.carry_out(self.table.create(control.GroupRecord(request, namespace, self._owner(caller, detached))))

    def _owner(self, caller: ProcessRecord, detached: bool) -> JobId | ProcessId:
        """Return with whom a group ends: with its program; made by an actor that outlives that, with the actor."""
        if detached:
            return control.NOBODY
        return caller.job if self._jobs.table.get(caller.job).is_program else caller.id

    def _remove(self, caller: ProcessRecord, id: str) -> None:
        self.carry_out(self.table.remove(_group(id), REMOVED_BY_HAND))

    def _find(self, caller: ProcessRecord, name: str, namespace: str) -> Pickled:
        """Return the row of the living group of that name, or None."""
        record = self.table.find(namespace, name)
        return Pickled.of(self._row(record) if record is not None else None)

    def _ready(self, caller: ProcessRecord, id: str) -> Deferred:
        """Answer when a group is placed, or with the error that says why it never will be."""
        deferred, group = Deferred(), _group(id)
        self._waiting.setdefault(group, []).append((caller, deferred))
        self._answer(group)
        return deferred

    # -- events from the head -------------------------------------------------------------------------------------

    def placed(self, group: GroupId, bundles: Iterable[Bundle]) -> None:
        """The scheduler has placed bundles of a group."""
        self.carry_out(self.table.placed(group, bundles))

    def node_lost(self, node: NodeRecord, cause: str) -> None:
        """Handle the loss of a node. Call this before the scheduler is told, which may place bundles again at once."""
        self.carry_out(self.table.node_lost(node.id, cause))

    def process_left(self, caller: ProcessRecord) -> None:
        """A process is gone: it waits for nothing any more, and the groups that end with it are over."""
        for group, waiting in list(self._waiting.items()):
            self._waiting[group] = [one for one in waiting if one[0] is not caller]
        self.carry_out(self.table.owner_ended(caller.id, "the actor that created it ended"))
        if caller.role == "driver":
            self.job_ended(caller.job)

    def job_ended(self, job: JobId) -> None:
        """A program is over, and the groups that it has made."""
        self.carry_out(self.table.owner_ended(job, "the program that created it ended"))

    def resume(self) -> None:
        """Carry on after the death of a head, now that all nodes are known that are left."""
        cluster = self._cluster
        owners = {job.id for job in self._jobs.table.jobs.values() if job.is_program and not job.ended}
        living = {node.id for node in cluster.living_nodes()}
        held, instructions = self.table.resume(living, owners | cluster.callers.keys())
        for record in held:
            self._leases.handle(GroupHeld(record.request, list(record.bundles.values())))
        self._leases.enter_groups()
        self.carry_out(instructions)

    # -- instructions ----------------------------------------------------------------------------------------------

    def carry_out(self, instructions: list[control.Instruction]) -> None:
        """Do what the table decided, after that is written down."""
        self._write_down()
        for step in instructions:
            record = self.table.groups[step.group]
            if isinstance(step, control.Reserve):
                if not self._cluster.recovering:  # else `resume` asks for it
                    self._leases.handle(GroupRequested(record.request))
            elif isinstance(step, control.Dissolve):
                self._dissolve(record)
            else:
                self._answer(record.id)
                self._observation.happened(
                    observers.PLACEMENT_GROUP,
                    record.state,
                    record.id,
                    {"name": record.request.name, "cause": record.cause},
                )
        self.table.forget_removed()
        self._write_down()

    def _write_down(self) -> None:
        while self.table.changed:
            group = self.table.changed.pop()
            record = self.table.groups.get(group)
            if record is not None:
                self._journal.group(record)
            else:
                self._journal.forget_group(group)

    def _dissolve(self, record: control.GroupRecord) -> None:
        """End all that runs in a group, and refuse what waits for it."""
        leases, reason = self._leases, f"{record.label} is gone: {record.cause}"
        for id in leases.leases_in(record.id):
            lease = leases.leases.get(id)
            if lease is None:
                continue
            if lease.request.for_actor:
                self._actors.place_lost(id, reason)
            elif lease.worker is None:
                error = PlacementGroupRemovedError(f"{lease.request.name}() can't run: {reason}")
                self._answers.refuse(lease.request, lease.holder, error)
            else:
                leases.take(id, reason)
        leases.dissolve(record.id)

    def _answer(self, group: GroupId) -> None:
        """Answer the processes that wait for a group, if its state is an answer."""
        record = self.table.groups.get(group)
        if record is not None and record.state in (control.PENDING, control.RESCHEDULING):
            return
        answer = None
        if record is None:
            answer = PlacementGroupRemovedError(f"placement group {group.hex()!r} is not known (any more)")
        elif record.state == control.REMOVED:
            answer = PlacementGroupRemovedError(f"{record.label} is gone: {record.cause}")
        for _, deferred in self._waiting.pop(group, ()):
            deferred.set(answer)

    # -- questions -------------------------------------------------------------------------------------------------

    def explain(self, group: GroupId) -> str:
        """Say where a group is, or what it waits for."""
        record = self.table.groups.get(group)
        if record is None:
            return "no such placement group is known (any more)"
        if record.state == control.REMOVED:
            return f"{record.label} is gone: {record.cause}"
        if record.state == control.CREATED:
            where = ", ".join(f"{index} on node {bundle.node.hex()[:8]}" for index, bundle in _sorted(record))
            return f"{record.label} is placed: bundle {where}"
        text = f"{record.label} is {record.state}: {self._leases.explain(group)}"
        return f"{text} ({record.cause})" if record.cause else text

    def rows(self, id: str = "") -> list[dict[str, Any]]:
        """Return a row per group, or just that of one."""
        records = self.table.groups
        if id:
            found = records.get(_group(id))
            return [self._row(found)] if found is not None else []
        return [self._row(record) for record in records.values()]

    def _row(self, record: control.GroupRecord) -> dict[str, Any]:
        return {
            "placement_group_id": record.id.hex(),
            "name": record.request.name,
            "namespace": record.namespace,
            "strategy": record.request.strategy,
            "state": record.state,
            "bundles": {index: quantities(bundle) for index, bundle in enumerate(record.request.bundles)},
            "bundles_to_node_id": {index: bundle.node.hex() for index, bundle in _sorted(record)},
            "is_detached": record.owner == control.NOBODY,
            "job_id": record.request.job.hex(),
            "cause": record.cause,
        }


def _sorted(record: control.GroupRecord) -> list[tuple[int, Bundle]]:
    return sorted(record.bundles.items())


def _group(id: str) -> GroupId:
    return GroupId(bytes.fromhex(id))
