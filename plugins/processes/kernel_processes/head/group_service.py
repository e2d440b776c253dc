"""Carry out on the head what `kernel_processes.head.groups` decides about placement groups."""

from __future__ import annotations

from collections.abc import Container, Iterable

from kernel_processes.head import groups as control
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.journal import Journal
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.lease_requests import LeaseHolders
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.observation import Observation
from kernel_spec import observers
from kernel_spec.errors import PlacementGroupRemovedError
from kernel_spec.ids import GroupId, JobId, NodeId, ProcessId
from kernel_spec.scheduling import Bundle, GroupHeld, GroupRequested


class GroupService:
    """Passes events to the table of groups and carries out its instructions. Runs in the head's loop.

    It requests room for groups from `leases`, and tells `holders` when the group of their lease is gone.
    """

    def __init__(
        self,
        table: control.GroupTable,
        journal: Journal,
        leases: LeaseManager,
        holders: LeaseHolders,
        observation: Observation,
    ) -> None:
        self.table = table
        self._journal = journal
        self._leases = leases
        self._holders = holders
        self._observation = observation
        self._restoring = False
        self._waiting: dict[GroupId, list[tuple[ProcessRecord, Deferred]]] = {}

    # -- events ----------------------------------------------------------------------------------------------------

    def wait(self, caller: ProcessRecord, group: GroupId) -> Deferred:
        """Answer when a group is placed, or with the error that says why it never will be."""
        deferred = Deferred()
        self._waiting.setdefault(group, []).append((caller, deferred))
        self._answer(group)
        return deferred

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

    # -- after the death of a head ---------------------------------------------------------------------------------

    def restore(self) -> None:
        """Read what an earlier head wrote down of groups; ask for no room until `resume`."""
        self._restoring = True
        for record in self._journal.groups():
            self.table.restore(record)

    def resume(self, nodes: Container[NodeId], owners: Container[JobId | ProcessId]) -> None:
        """Go on, now that all `nodes`, jobs and processes are known that are left."""
        self._restoring = False
        held, instructions = self.table.resume(nodes, owners)
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
                if not self._restoring:  # Otherwise `resume` asks for it.
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
        self._journal.write_groups(self.table.changed, self.table.groups)

    def _dissolve(self, record: control.GroupRecord) -> None:
        """End all that runs in a group, and refuse what waits for it."""
        leases, reason = self._leases, f"{record.label} is gone: {record.cause}"
        for id in leases.leases_in(record.id):
            lease = leases.leases.get(id)
            if lease is None:
                continue
            if lease.request.for_actor:
                self._holders.place_lost(id, reason)
            elif lease.worker is None:
                error = PlacementGroupRemovedError(f"{lease.request.name}() can't run: {reason}")
                self._holders.refuse(lease.request, lease.holder, error)
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
