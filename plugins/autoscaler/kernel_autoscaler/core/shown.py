"""What people are to see of an autoscaler."""

from __future__ import annotations

from typing import Any

from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.machines import DRAINING, RUNNING, STARTING, TERMINATING


def shown(autoscaler: Autoscaler, now: float) -> dict[str, Any]:
    """Return what an autoscaler has and does at the time `now`, as plain values."""
    kinds = []
    for kind in autoscaler.kinds.values():
        circuit = autoscaler.circuits.open(kind.name, now)
        states = [machine.state for machine in autoscaler.machines.machines.values() if machine.kind == kind.name]
        ordered = sum(order.count for order in autoscaler.machines.orders.values() if order.kind == kind.name)
        kinds.append(
            {
                "name": kind.name,
                "running": states.count(RUNNING),
                "coming": states.count(STARTING) + ordered,
                "leaving": states.count(DRAINING) + states.count(TERMINATING),
                "price": kind.price,
                "closed": f"{circuit.text} ({circuit.code})" if circuit is not None else "",
            }
        )
    return {
        "at": now,
        "kinds": kinds,
        "machines": [
            {"id": one.id, "kind": one.kind, "state": one.state, "node": one.node, "why": one.why}
            for one in autoscaler.machines.machines.values()
        ],
        "orders": [{"kind": one.kind, "count": one.count} for one in autoscaler.machines.orders.values()],
        "unmet": [[one.what, one.why] for one in autoscaler.unmet],
        "price": autoscaler.price,
        "spent": autoscaler.spent,
        "spent_idle": autoscaler.spent_idle,
    }
