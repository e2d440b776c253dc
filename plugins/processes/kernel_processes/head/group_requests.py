"""Requests of processes about placement groups: create them, wait for them, remove them, show where they are."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_processes.head import groups as control
from kernel_processes.head.group_service import GroupService
from kernel_processes.head.groups import GroupRecord, GroupTable
from kernel_processes.head.job_service import JobService
from kernel_processes.head.lease_manager import LeaseManager
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import ProcessRecord
from kernel_processes.protocol.pickled import Pickled
from kernel_spec.errors import OptionError
from kernel_spec.ids import GroupId, JobId, ProcessId
from kernel_spec.placement import conditions
from kernel_spec.resources import Amounts, quantities
from kernel_spec.scheduling import Bundle, GroupRequest

_WAITING = (control.PENDING, control.RESCHEDULING)
REMOVED_BY_HAND = "it was removed by kernel.remove_placement_group()"


class GroupRequests:
    """Answers requests about the groups in `table`, given their ids in hexadecimal. Runs in the head's loop."""

    def __init__(
        self,
        dispatcher: MessageDispatcher,
        table: GroupTable,
        groups: GroupService,
        jobs: JobService,
        leases: LeaseManager,
    ) -> None:
        self.table = table
        self._groups = groups
        self._jobs = jobs
        self._leases = leases
        dispatcher.methods |= {
            "create_placement_group": self._create,
            "remove_placement_group": self._remove,
            "find_placement_group": self._find,
            "placement_group_ready": lambda caller, id: groups.wait(caller, _group(id)),
            "placement_groups": lambda caller, id="": Pickled.of(self.rows(id)),
            "explain_placement_group": lambda caller, id: self.explain(_group(id)),
        }

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
        self._groups.carry_out(self.table.create(GroupRecord(request, namespace, self._owner(caller, detached))))

    def _owner(self, caller: ProcessRecord, detached: bool) -> JobId | ProcessId:
        """Return the owner with which a group ends: its program, or the actor that made it if that outlives it."""
        if detached:
            return control.NOBODY
        return caller.job if self._jobs.table.get(caller.job).is_program else caller.id

    def _remove(self, caller: ProcessRecord, id: str) -> None:
        self._groups.carry_out(self.table.remove(_group(id), REMOVED_BY_HAND))

    # -- questions -------------------------------------------------------------------------------------------------

    def _find(self, caller: ProcessRecord, name: str, namespace: str) -> Pickled:
        """Return the row of the living group of that name, or None."""
        record = self.table.find(namespace, name)
        return Pickled.of(_row(record) if record is not None else None)

    def explain(self, group: GroupId) -> str:
        """Return a sentence that says where a group is, or what it waits for."""
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
            return [_row(found)] if found is not None else []
        return [_row(record) for record in records.values()]

    def waiting(self) -> list[dict[str, Any]]:
        """Return a row per group of which bundles wait, with the conditions on the labels of their nodes."""
        waiting = (record for record in self.table.groups.values() if record.state in _WAITING)
        return [{**_row(record), "labels": [dict(wanted) for wanted in record.request.labels]} for record in waiting]


def _row(record: GroupRecord) -> dict[str, Any]:
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


def _sorted(record: GroupRecord) -> list[tuple[int, Bundle]]:
    return sorted(record.bundles.items())


def _group(id: str) -> GroupId:
    return GroupId(bytes.fromhex(id))
