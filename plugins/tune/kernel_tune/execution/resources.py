"""What the machines have, and what of it trials use."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_runs.resources import Demand, PlacementGroupFactory, Request, Resources, make_request, total

__all__ = ["Demand", "PlacementGroupFactory", "Request", "Resources", "Room", "make_request", "total"]


def _holds(there: Demand, demand: Demand) -> bool:
    return all(amount <= there.get(name, 0.0) + 1e-9 for name, amount in demand.items())


class Room:
    """What the machines have, and what of it trials use. Amounts are compared with a little tolerance."""

    nodes: Sequence[Demand] = ()
    """What each machine has; empty where nobody has said, as in experiments that an earlier version wrote."""

    def __init__(self, capacity: Demand | None = None, nodes: Sequence[Demand] = ()) -> None:
        self.capacity: Demand = dict(capacity or {})
        self.nodes = list(nodes)
        self.used: Demand = {}

    def fits(self, demand: Demand) -> bool:
        """Return whether so much is free."""
        return all(
            amount <= self.capacity.get(name, 0.0) - self.used.get(name, 0.0) + 1e-9 for name, amount in demand.items()
        )

    def could_fit(self, demand: Demand) -> bool:
        """Return whether so much would be free if nothing were used."""
        return _holds(self.capacity, demand)

    def has_places(self, request: Request) -> bool:
        """Return whether each bundle would find room on one machine, if nothing were used there."""
        bundles = request.bundles()
        if request.strategy == "STRICT_PACK":
            bundles = [total(bundles)]
        places = [{at for at, node in enumerate(self.nodes) if _holds(node, bundle)} for bundle in bundles]
        is_spread = request.strategy == "STRICT_SPREAD"
        return not self.nodes or (all(places) and not (is_spread and len(set().union(*places)) < len(bundles)))

    def take(self, demand: Demand) -> None:
        """Use so much."""
        for name, amount in demand.items():
            self.used[name] = self.used.get(name, 0.0) + amount

    def give_back(self, demand: Demand) -> None:
        """Use so much less."""
        for name, amount in demand.items():
            self.used[name] = max(0.0, round(self.used.get(name, 0.0) - amount, 9))
