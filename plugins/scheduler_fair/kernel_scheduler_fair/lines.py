"""Who waits: one line for each account, priority and shape of request."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import field

from kernel_scheduler_fair.accounts import Accounts
from kernel_scheduler_fair.terms import Key, Terms, group_terms, lease_terms
from kernel_spec.dataclass import dataclass
from kernel_spec.finding import distinct
from kernel_spec.holdings import Group
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.packing import total_of
from kernel_spec.resources import Amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in a line. `number` counts arrivals, `since` is in seconds on the caller's clock."""

    request: LeaseRequest | GroupRequest
    number: int
    since: float


@dataclass(slots=True, eq=False)
class Line:
    """All requests of one account and priority that want the same in the same place, oldest first.

    A placement group has a line of its own: what it lacks is what the line wants, in `pieces`. `untried`: the front may
    fit somewhere, nobody has looked. `capped`: nobody has looked, because the account's quota is used up.
    """

    terms: Terms
    wanted: Amounts
    costs: Amounts
    pieces: Sequence[Amounts]
    group: Group | None = None
    in_group: GroupId | None = None
    untried: bool = True
    capped: bool = False
    waiting: OrderedDict[LeaseId | GroupId, Waiting] = field(default_factory=OrderedDict)

    @property
    def front(self) -> Waiting:
        """The oldest request."""
        return next(iter(self.waiting.values()))


class Lines:
    """All lines. Finding, joining and leaving one costs the same however long it is."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._lines: dict[Key, Line] = {}
        self._line_of: dict[LeaseId | GroupId, Line] = {}
        self._arrivals = 0

    def __contains__(self, id: object) -> bool:
        return id in self._line_of

    def __len__(self) -> int:
        return len(self._line_of)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines.values())

    def join(self, request: LeaseRequest, now: float) -> Line:
        """Put a request for a lease at the end of its line and return the line."""
        terms = lease_terms(self._accounts, request)
        line = self._lines.get(terms.key)
        if line is None:
            line = self._lines[terms.key] = Line(
                terms, terms.wanted, terms.costs, [terms.wanted], in_group=request.group
            )
        self._put(line, request, now)
        return line

    def join_group(self, group: Group, now: float) -> Line:
        """Give a group that lacks bundles a line, or say anew what it lacks, and return the line."""
        line = self._line_of.get(group.request.id)
        if line is None:
            terms = group_terms(self._accounts, group.request)
            line = self._lines[terms.key] = Line(terms, terms.wanted, terms.costs, (), group)
            self._put(line, group.request, now)
        lacking = group.waiting()
        line.wanted = line.costs = total_of(lacking.values())
        line.pieces = distinct(lacking)
        line.untried = True
        return line

    def leave(self, id: LeaseId | GroupId) -> Line:
        """Take a waiting request out and return the line it was in."""
        line = self._line_of.pop(id)
        del line.waiting[id]
        if not line.waiting:
            del self._lines[line.terms.key]
        return line

    def find(self, id: LeaseId | GroupId) -> Line | None:
        """Return the line in which `id` waits."""
        return self._line_of.get(id)

    def _put(self, line: Line, request: LeaseRequest | GroupRequest, now: float) -> None:
        self._arrivals += 1
        line.waiting[request.id] = Waiting(request, self._arrivals, now)
        self._line_of[request.id] = line
