"""What all parts of the conformance suite for schedulers share: what to test, and what it does not promise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kernel_conformance.scheduler_fuzz import AFFINITY, GROUPS, LABELS
from kernel_conformance.scheduler_harness import SchedulerHarness
from kernel_spec.scheduling import Scheduler


class SchedulerSuite:
    """`make_scheduler` returns a new, empty one. The flags say what it can do; tests of what it can't pass."""

    make_scheduler: Callable[[], Scheduler]

    strict_fifo = True
    """Requests alike in every way are granted in the order they came."""
    passes_blocked_shapes = True
    """A request that does not fit does not stop others that do."""
    starvation_free = False
    """A request or group that fits on empty nodes is granted, however many smaller ones keep coming."""
    hybrid = True
    """"DEFAULT" means what `kernel_spec.placement` says: the origin, few nodes up to half full, devices last."""
    locality = True
    """Goes to the node with most bytes of the arguments."""
    node_affinity = True
    """Knows the strategy `{"type": "node_affinity", ...}`."""
    node_labels = True
    """Knows the strategy `{"type": "node_labels", ...}`."""
    spreads = True
    """Knows the strategy "SPREAD"."""
    placement_groups = True
    """Places groups. One that can't leaves them waiting, and says so when asked."""
    reclaims = True
    """Asks holders to give leases back when others wait."""
    flat_cost = False
    """An event costs the same however many wait."""
    flat_over_nodes = False
    """An event costs the same however many nodes there are."""
    most_times_slower = 400
    """How many turns of a trivial loop one event may cost."""
    fuzz_seeds: Sequence[int] = range(12)
    """Seeds of the random histories; a failure prints the one that repeats it."""

    def harness(self) -> SchedulerHarness:
        """Return a fresh scheduler in a checked world."""
        make = type(self).make_scheduler
        return SchedulerHarness(make(), make)

    def features(self) -> Collection[str]:
        """Return what random histories may ask for."""
        able = {AFFINITY: self.node_affinity, LABELS: self.node_labels, GROUPS: self.placement_groups}
        return [feature for feature, yes in able.items() if yes]
