"""Placement groups from request to removal. A pure state machine: events in, instructions out.

PENDING --all bundles placed--> CREATED --a node with bundles is gone--> RESCHEDULING --placed again--> CREATED ...
any --removed | its owner ended--> REMOVED

The scheduler decides where bundles are placed; this table knows the owner of a group, its name, and when it ends. A
removed group is removed for all processes at once, although processes inside it may still be ending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from dataclasses import field

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NameTakenError
from kernel_spec.ids import GroupId, JobId, NodeId, ProcessId
from kernel_spec.scheduling import Bundle, GroupRequest

PENDING = "PENDING"
CREATED = "CREATED"
RESCHEDULING = "RESCHEDULING"
REMOVED = "REMOVED"

NOBODY = ProcessId(b"")
KEPT_REMOVED = 1000
"""The number of removed groups that are remembered, for late questions."""


@dataclass(slots=True)
class GroupRecord:
    """Holds the state of one placement group. It ends with its `owner`, a job or a process, if it is not detached.

    `bundles` are the placed bundles, by number.
    """

    request: GroupRequest
    namespace: str
    owner: JobId | ProcessId
    state: str = PENDING
    bundles: dict[int, Bundle] = field(default_factory=dict)
    cause: str = ""

    @property
    def id(self) -> GroupId:
        """The group's id."""
        return self.request.id

    @property
    def label(self) -> str:
        """The group as error messages and listings name it."""
        return f"placement group {self.request.name or self.id.hex()!r}"

    @property
    def is_whole(self) -> bool:
        """Whether all of its bundles are placed."""
        return len(self.bundles) == len(self.request.bundles)


@dataclass(frozen=True, slots=True)
class Reserve:
    """Ask the scheduler for this group."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class Dissolve:
    """End what runs in this group or waits for it, then give back what the group holds."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class PublishGroup:
    """Send the group's new state to the processes that wait for it."""

    group: GroupId


Instruction = Reserve | Dissolve | PublishGroup


class GroupTable:
    """Holds every placement group of the session, and answers each event with instructions."""

    def __init__(self) -> None:
        self.groups: dict[GroupId, GroupRecord] = {}
        self.names: dict[tuple[str, str], GroupId] = {}
        self._unplaced: set[GroupId] = set()
        self._removed: deque[GroupId] = deque()
        self._history: deque[str] = deque(maxlen=200)
        self.changed: set[GroupId] = set()
        """Groups that were changed or forgotten since their reader last cleared this set."""

    @property
    def waiting(self) -> bool:
        """Whether any group waits to be placed."""
        return bool(self._unplaced)

    def find(self, namespace: str, name: str) -> GroupRecord | None:
        """Return the living group of that name."""
        group = self.names.get((namespace, name))
        return self.groups[group] if group is not None else None

    # -- events ----------------------------------------------------------------------------------------------------

    def create(self, record: GroupRecord) -> list[Instruction]:
        """Create a group. Raises NameTakenError when another living group has its name."""
        if record.id in self.groups:
            return []  # A process sends it a second time after a head's death.
        key = (record.namespace, record.request.name)
        if key in self.names:
            raise NameTakenError(
                f"a placement group named {key[1]!r} lives in namespace {key[0]!r}; use "
                f"get_placement_group({key[1]!r}), remove that one first, or take another name"
            )
        self.groups[record.id] = record
        self._unplaced.add(record.id)
        if record.request.name:
            self.names[key] = record.id
        self._note(record, "is asked for")
        return [Reserve(record.id)]

    def placed(self, group: GroupId, bundles: Iterable[Bundle]) -> list[Instruction]:
        """The scheduler has placed bundles of a group."""
        record = self.groups.get(group)
        if record is None or record.state == REMOVED:
            return []
        record.bundles |= {bundle.index: bundle for bundle in bundles}
        self._note(record, f"has bundles {sorted(record.bundles)}")
        if not record.is_whole:
            return []
        record.state, record.cause = CREATED, ""
        self._unplaced.discard(group)
        return [PublishGroup(group)]

    def node_lost(self, node: NodeId, cause: str) -> list[Instruction]:
        """Have the bundles of a lost node placed again. Call this before the scheduler is told of the loss."""
        instructions: list[Instruction] = []
        for record in self.groups.values():
            lost = [index for index, bundle in record.bundles.items() if bundle.node == node]
            if not lost or record.state == REMOVED:
                continue
            for index in lost:
                del record.bundles[index]
            record.state, record.cause = RESCHEDULING, f"node {node.hex()[:8]} is gone: {cause}"
            self._unplaced.add(record.id)
            self._note(record, f"lost bundles {lost} with node {node.hex()[:8]}")
            instructions.append(PublishGroup(record.id))
        return instructions

    def remove(self, group: GroupId, cause: str) -> list[Instruction]:
        """Remove a group."""
        record = self.groups.get(group)
        if record is None or record.state == REMOVED:
            return []
        record.state, record.cause = REMOVED, cause
        record.bundles = {}
        self._unplaced.discard(group)
        key = (record.namespace, record.request.name)
        if self.names.get(key) == group:
            del self.names[key]
        self._removed.append(group)
        self._note(record, f"is removed: {cause}")
        return [Dissolve(group), PublishGroup(group)]

    def owner_ended(self, owner: JobId | ProcessId, cause: str) -> list[Instruction]:
        """A job or a process is over, and with it its groups."""
        own = [record.id for record in self.groups.values() if record.owner == owner]
        return [step for group in own for step in self.remove(group, cause)]

    def forget_removed(self) -> None:
        """Let go of those that were removed longest ago. After the instructions about them were carried out."""
        while len(self._removed) > KEPT_REMOVED:
            group = self._removed.popleft()
            del self.groups[group]
            self.changed.add(group)

    # -- after the death of a head ---------------------------------------------------------------------------------

    def restore(self, record: GroupRecord) -> None:
        """Take in what an earlier head wrote down, as it was then."""
        self.groups[record.id] = record
        if record.state == REMOVED:
            self._removed.append(record.id)
        elif record.request.name:
            self.names[record.namespace, record.request.name] = record.id
        if record.state in (PENDING, RESCHEDULING):
            self._unplaced.add(record.id)
        self._note(record, "restored")

    def resume(
        self, nodes: Container[NodeId], owners: Container[JobId | ProcessId]
    ) -> tuple[list[GroupRecord], list[Instruction]]:
        """Carry on once every living node has reported: return the groups that hold bundles, and instructions.

        Tell the scheduler of these groups first. `owners` are the jobs and processes that live.
        """
        instructions: list[Instruction] = []
        for node in {bundle.node for record in self.groups.values() for bundle in record.bundles.values()}:
            if node not in nodes:
                instructions += self.node_lost(node, "it was lost while the head was away")
        held = [record for record in self.groups.values() if record.state in (CREATED, RESCHEDULING)]
        for record in list(self.groups.values()):
            if record.state == PENDING:
                instructions.append(Reserve(record.id))
            elif record.state == REMOVED:
                instructions.append(Dissolve(record.id))
            if record.state != REMOVED and record.owner != NOBODY and record.owner not in owners:
                instructions += self.remove(record.id, "what created it ended while the head was away")
        return held, instructions

    # -- inside ----------------------------------------------------------------------------------------------------

    def _note(self, record: GroupRecord, what: str) -> None:
        self.changed.add(record.id)
        self._history.append(f"{record.label} {what}")

    def validate(self) -> None:
        """Raise AssertionError, with the history, when an invariant is broken."""
        story = "\n".join(self._history)
        for key, group in self.names.items():
            record = self.groups[group]
            assert record.state != REMOVED, f"the name {key} belongs to a removed group\n{story}"
            assert key == (record.namespace, record.request.name), f"{key} is misfiled\n{story}"
        for record in self.groups.values():
            waits = record.state in (PENDING, RESCHEDULING)
            assert waits == (record.id in self._unplaced), f"{record.label} is {record.state}\n{story}"
            assert record.is_whole == (record.state == CREATED), f"{record.label} has {record.bundles}\n{story}"
            assert record.bundles.keys() <= set(range(len(record.request.bundles))), f"{record.label}: numbers\n{story}"
            named = bool(record.request.name) and record.state != REMOVED
            own = self.names.get((record.namespace, record.request.name)) == record.id
            assert named == own, f"{record.label} is {record.state}, and its name says otherwise\n{story}"
        assert self._unplaced <= self.groups.keys(), f"an unknown group waits\n{story}"
