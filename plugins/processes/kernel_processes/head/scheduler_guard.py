"""Hold a scheduler to its contract: check its instructions against a separate ledger before they are carried out. Pure.

If resources that do not exist were granted, the grant would be lost silently, and its requester would wait for ever.
"""

from __future__ import annotations

from kernel.plugin_faults import told
from kernel_spec import scheduling as contract
from kernel_spec.errors import ContractError, PluginError
from kernel_spec.holdings import Group, Place
from kernel_spec.ids import GroupId, LeaseId, NodeId
from kernel_spec.ledger import Ledger
from kernel_spec.resources import Allocation, Amounts, describe


class SchedulerGuard:
    """Passes events on to a scheduler, and returns its instructions if they can be carried out."""

    def __init__(self, scheduler: contract.Scheduler) -> None:
        self.scheduler = scheduler
        self.name = scheduler.name
        self._label = f"scheduler plugin {scheduler.name!r}"
        self._ledger = Ledger()
        self._waiting: dict[LeaseId, contract.LeaseRequest] = {}

    def handle(self, event: contract.Event, now: float) -> list[contract.Instruction]:
        """Return the scheduler's instructions for an event.

        Raises PluginError with its lines when it raises, and ContractError when an instruction is invalid. In both
        cases its state and the guard's differ from then on, so that it must not be called again.
        """
        self._note(event)
        try:
            steps = self.scheduler.handle(event, now)
        except Exception as error:
            raise PluginError(told(self._label, error)) from error
        if not isinstance(steps, list):
            raise ContractError(
                f"{self._label}: its handle({type(event).__name__}) returned {steps!r:.100}, not a list"
            )
        for step in steps:
            wrong = self._problem(step)
            if wrong:
                raise ContractError(f"{self._label}: its handle({type(event).__name__}) returned {wrong}")
        return steps

    def explain(self, id: LeaseId | GroupId, now: float) -> str:
        """Explain why a request waits; if the scheduler fails to do so, describe its failure."""
        try:
            return self.scheduler.explain(id, now).text
        except Exception as error:
            return told(f"why is not known, because explain of the {self._label}", error)

    def snapshot(self) -> contract.SchedulerSnapshot:
        """Return the scheduler's snapshot. Raises PluginError with its lines when it raises."""
        try:
            found = self.scheduler.snapshot()
        except Exception as error:
            raise PluginError(told(f"{self._label}: its snapshot()", error)) from error
        if not isinstance(found, contract.SchedulerSnapshot):
            raise ContractError(f"{self._label}: its snapshot() returned {found!r:.100}, not a SchedulerSnapshot")
        return found

    def _note(self, event: contract.Event) -> None:
        self._ledger.apply(event)
        if isinstance(event, contract.LeaseRequested):
            self._waiting[event.request.id] = event.request
        elif isinstance(event, contract.LeaseCancelled):
            self._waiting.pop(event.id, None)

    # -- what may be wrong -----------------------------------------------------------------------------------------

    def _problem(self, step: object) -> str:
        """Return what is wrong with an instruction, as the end of a sentence; record a valid one and return ""."""
        if isinstance(step, contract.Grant):
            return self._problem_of_grant(step)
        if isinstance(step, contract.PlaceGroup):
            return self._problem_of_group(step)
        if isinstance(step, contract.Reclaim | contract.Preempt):
            return (
                "" if step.id in self._ledger.leases else f"{_said(step)} of lease {_hex(step.id)}, which is not held"
            )
        return f"{step!r:.100}, which is no instruction"

    def _problem_of_grant(self, grant: contract.Grant) -> str:
        request, what = self._waiting.get(grant.id), f"a grant of lease {_hex(grant.id)}"
        held = self._ledger.leases.get(grant.id)
        if held is not None:
            return f"{what} ({held.request.name!r}), which was granted before, on node {_hex(held.place.node)}"
        if request is None:
            return f"{what}, which was not requested or no longer waits"
        what = f"{what} ({request.name!r}) on node {_hex(grant.node)}"
        wrong = self._problem_of_node(grant.node) or _problem_of_amounts(grant.allocation, request.wanted)
        if wrong:
            return what + wrong
        place = self._place(grant, request)
        if place is None:
            return f"{what}, in bundle {grant.bundle}, which is not there"
        if _is_too_much(place, grant.allocation):
            free = describe({name: place.pool.available.get(name, 0) for name in grant.allocation.amounts})
            return f"{what}, which is more than is free there: {_wanted(grant.allocation)} of {free}"
        del self._waiting[grant.id]
        place.pool.take(grant.allocation)
        self._ledger.grant(request, place, grant.allocation)
        return ""

    def _place(self, grant: contract.Grant, request: contract.LeaseRequest) -> Place | None:
        """Return the place of a grant: the node, or the bundle of the placement group that the request names."""
        if request.group is None:
            return self._ledger.nodes[grant.node]
        group = self._ledger.groups.get(request.group)
        place = group.bundles.get(grant.bundle) if group is not None else None
        fits = place is not None and place.node == grant.node and request.bundle in (-1, grant.bundle)
        return place if fits else None

    def _problem_of_group(self, step: contract.PlaceGroup) -> str:
        group, what = self._ledger.groups.get(step.id), f"a place for placement group {_hex(step.id)}"
        if group is None:
            return f"{what}, which was not requested or is over"
        missing, numbers = group.waiting(), [bundle.index for bundle in step.bundles]
        if sorted(numbers) != sorted(missing):
            return f"{what} with its bundles {numbers}, where {sorted(missing)} have no place: all or none"
        for bundle in step.bundles:
            wrong = self._problem_of_bundle(bundle, missing[bundle.index])
            if wrong:
                return f"{what}: bundle {bundle.index} on node {_hex(bundle.node)}{wrong}"
            self._take_bundle(group, bundle)
        return ""

    def _take_bundle(self, group: Group, bundle: contract.Bundle) -> None:
        self._ledger.nodes[bundle.node].pool.take(bundle.allocation)
        self._ledger.place_group(group, (bundle,))

    def _problem_of_bundle(self, bundle: contract.Bundle, wanted: Amounts) -> str:
        wrong = self._problem_of_node(bundle.node) or _problem_of_amounts(bundle.allocation, wanted)
        if not wrong and _is_too_much(self._ledger.nodes[bundle.node], bundle.allocation):
            return f", which is more than is free there: {_wanted(bundle.allocation)}"
        return wrong

    def _problem_of_node(self, node: NodeId) -> str:
        place = self._ledger.nodes.get(node)
        if place is None:
            return f", which is not there: the nodes are {', '.join(map(_hex, self._ledger.nodes)) or 'none'}"
        return ", which is about to leave" if place.draining else ""


def _is_too_much(place: Place, allocation: Allocation) -> bool:
    """Return whether an allocation exceeds the free resources or devices, or its devices do not add up."""
    held = {name: units for name, units in allocation.amounts.items() if units}
    for name in place.pool.device_resources & held.keys():
        if sum(allocation.devices.get(name, {}).values()) != held[name]:
            return True
    return place.pool.shortage(Allocation(held, allocation.devices)) > 0


def _problem_of_amounts(allocation: Allocation, wanted: Amounts) -> str:
    held = {name: units for name, units in allocation.amounts.items() if units}
    asked = {name: units for name, units in wanted.items() if units}
    return "" if held == asked else f", of {describe(held)}, where {describe(asked)} was asked for"


def _wanted(allocation: Allocation) -> str:
    devices = ", ".join(f"{name} {sorted(chosen)}" for name, chosen in allocation.devices.items() if chosen)
    return describe(allocation.amounts) + (f" (devices {devices})" if devices else "")


def _said(step: contract.Reclaim | contract.Preempt) -> str:
    return "a reclaim" if isinstance(step, contract.Reclaim) else "a preemption"


def _hex(id: object) -> str:
    return id.hex()[:16] if isinstance(id, bytes) else repr(id)
