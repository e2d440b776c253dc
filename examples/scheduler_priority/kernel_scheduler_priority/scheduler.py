"""The most important request first, and among equals the one that came first."""

from bisect import insort

from kernel_spec import scheduling as s
from kernel_spec.choosing import place_group, places_for
from kernel_spec.ids import GroupId, LeaseId
from kernel_spec.ledger import Ledger
from kernel_spec.reasons import explain


def priority(request: s.LeaseRequest) -> float:
    """Return the request's `priority` hint; what is no number counts as 0."""
    hint = request.hints.get("priority", 0)
    return hint if isinstance(hint, int | float) and hint == hint else 0


class PriorityScheduler:
    """Keeps everybody who waits in one list, most important first, and grants whatever fits, from the front."""

    name = "priority"

    def __init__(self) -> None:
        self.ledger = Ledger()  # nodes, granted leases and placement groups: what every scheduler writes down alike
        self.waiting: list[s.LeaseRequest] = []
        self.asked = set[LeaseId]()

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        """Take one event in and return what to do, in order."""
        match event:
            case s.LeaseRequested(request):
                insort(self.waiting, request, key=lambda request: -priority(request))
            case s.LeaseCancelled(id):
                self.waiting = [request for request in self.waiting if request.id != id]
            case _:
                self.ledger.apply(event)
        if isinstance(event, s.LeaseHeld | s.GroupHeld):
            return []  # more that is held may follow
        done = [*self._place_groups(), *self._grant()]
        return [*done, *self._reclaim()] if isinstance(event, s.Tick) else done

    def explain(self, id: LeaseId | GroupId, now: float) -> s.Reason:
        """Say why the request `id` waits."""
        line = [request.id for request in self.waiting]
        if id not in line:
            return explain(self.ledger, id)
        place = line.index(LeaseId(id))
        reason = explain(self.ledger, id, self.waiting[place])
        text = f"number {place + 1} in line with priority {priority(self.waiting[place])}: {reason.text}"
        return s.Reason(reason.code, text)

    def snapshot(self) -> s.SchedulerSnapshot:
        """Return a copy of what is held."""
        return self.ledger.snapshot(self.waiting)

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        self.ledger.validate()
        assert self.waiting == sorted(self.waiting, key=lambda request: -priority(request)), "the line is out of order"

    def _place_groups(self) -> list[s.Instruction]:
        tried = [place_group(self.ledger, group) for group in self.ledger.waiting_groups()]
        return [placed for placed in tried if isinstance(placed, s.PlaceGroup)]

    def _grant(self) -> list[s.Instruction]:
        grants: list[s.Instruction] = []
        refused: list[object] = []  # who wants the same as one that did not fit need not be tried
        for request in self.waiting:
            shape = request.wanted, request.strategy, request.group, request.bundle
            if shape in refused:
                continue
            for place in places_for(self.ledger, request):
                if allocation := place.pool.acquire(request.wanted):
                    grants.append(self.ledger.grant(request, place, allocation))
                    break
            else:
                refused.append(shape)
        self.waiting = [request for request in self.waiting if request.id not in self.ledger.leases]
        return grants

    def _reclaim(self) -> list[s.Instruction]:
        """Ask one holder back: the least important of those who have what the first in line lacks."""
        self.asked &= self.ledger.leases.keys()
        for request in self.waiting:
            for place in places_for(self.ledger, request):
                lacking = place.pool.missing(request.wanted) if place.pool.fits_ever(request.wanted) else {}
                able = [held for held in place.leases.values() if not held.request.for_actor]
                for held in sorted(able, key=lambda held: priority(held.request)):
                    less = priority(held.request) < priority(request) and held.request.id not in self.asked
                    if less and any(map(held.holds, lacking)):
                        self.asked.add(held.request.id)
                        return [s.Reclaim(held.request.id)]
        return []
