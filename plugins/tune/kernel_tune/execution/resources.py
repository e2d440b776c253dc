"""The resources of the machines, and what of them trials use."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_runs.resources import Demand, PlacementGroupFactory, Request, Resources, make_request, total

__all__ = ["Demand", "PlacementGroupFactory", "Request", "Resources", "Room", "make_request", "total"]


def _holds(there: Demand, demand: Demand) -> bool:
    return all(amount <= there.get(name, 0.0) + 1e-9 for name, amount in demand.items())


class Room:
    """Holds the resources of the machines, and what of them trials use. Amounts are compared with a small tolerance."""

    nodes: Sequence[Demand] = ()
    """The resources of each machine; empty if they are not known, as in experiments of earlier versions."""

    def __init__(self, capacity: Demand | None = None, nodes: Sequence[Demand] = ()) -> None:
        self.capacity: Demand = dict(capacity or {})
        self.nodes = list(nodes)
        self.used: Demand = {}

    def fits(self, demand: Demand) -> bool:
        """Return whether this demand is free now."""
        return all(
            amount <= self.capacity.get(name, 0.0) - self.used.get(name, 0.0) + 1e-9 for name, amount in demand.items()
        )

    def could_fit(self, demand: Demand) -> bool:
        """Return whether this demand would be free if nothing were used."""
        return _holds(self.capacity, demand)

    def has_places(self, request: Request) -> bool:
        """Return whether each bundle would fit on one machine if nothing were used there."""
        bundles = request.bundles()
        if request.strategy == "STRICT_PACK":
            bundles = [total(bundles)]
        places = [{at for at, node in enumerate(self.nodes) if _holds(node, bundle)} for bundle in bundles]
        is_spread = request.strategy == "STRICT_SPREAD"
        return not self.nodes or (all(places) and not (is_spread and len(set().union(*places)) < len(bundles)))

    def take(self, demand: Demand) -> None:
        """Add a demand to what is used."""
        for name, amount in demand.items():
            self.used[name] = self.used.get(name, 0.0) + amount

    def give_back(self, demand: Demand) -> None:
        """Subtract a demand from what is used."""
        for name, amount in demand.items():
            self.used[name] = max(0.0, round(self.used.get(name, 0.0) - amount, 9))
