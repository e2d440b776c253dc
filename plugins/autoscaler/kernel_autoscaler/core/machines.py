"""Know the machines that were asked for, from the order to their end. A pure state machine.

ordered --ids--> STARTING --its node joins--> RUNNING --idle--> DRAINING --it has left--> TERMINATING --> gone
                 STARTING --too late--> TERMINATING          DRAINING --needed again--> RUNNING

An order whose outcome is not known, because the call failed on its way, is kept until the provider's list tells:
machines that nobody knows and that are of its kind are taken for its own. So nothing is ordered twice, and nothing
that was made is forgotten. A machine that is not listed counts as gone after two lists and `GONE_SECONDS`: lists lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.providers import ProvidedNode

STARTING, RUNNING, DRAINING, TERMINATING = "STARTING", "RUNNING", "DRAINING", "TERMINATING"
GONE_SECONDS = 30.0
"""Seconds for which a machine must be missing from lists until it counts as gone, and an order as not carried out."""
AGAIN_SECONDS = 60.0
"""Seconds after which a machine that is still listed is terminated once more."""


@dataclass(slots=True)
class Order:
    """A `MakeMachines` that is on its way since `at`. `lost`: its outcome is not known; `lists` came since then."""

    token: str
    kind: str
    count: int
    at: float
    lost: bool = False
    lists: int = 0


@dataclass(slots=True)
class Machine:
    """One machine, and since when it is in its state. `node` is the id of its node, once it has joined.

    `missing_since` and `missing` say since when, and how often, a list was without it. `interrupted`: the provider will
    take it away.
    """

    id: str
    kind: str
    state: str
    since: float
    token: str = ""
    node: str = ""
    made_at: float = 0.0
    missing_since: float = 0.0
    missing: int = 0
    interrupted: bool = False
    why: str = ""


class Machines:
    """Holds all orders and machines of a cluster."""

    def __init__(self) -> None:
        self.orders: dict[str, Order] = {}
        self.machines: dict[str, Machine] = {}
        self._strangers: dict[str, int] = {}
        """Listed ids that nobody knows, and how many lists had them."""
        self._numbered = 0

    # -- orders ----------------------------------------------------------------------------------------------------

    def order(self, kind: str, count: int, prefix: str, now: float) -> Order:
        """Return a new order, with a token that no other order has or had."""
        self._numbered += 1
        order = Order(f"{prefix}-{self._numbered}", kind, count, now)
        self.orders[order.token] = order
        return order

    def created(self, token: str, ids: Iterable[str], now: float) -> Order | None:
        """An order was carried out: its machines start. Return it; None for one that is not known any more."""
        order = self.orders.pop(token, None)
        if order is not None:
            for id in ids:
                if id not in self.machines:
                    self._begin(id, order.kind, token, now)
        return order

    def lose(self, token: str) -> Order | None:
        """The outcome of an order is not known: wait for lists. Return it."""
        order = self.orders.get(token)
        if order is not None:
            order.lost, order.lists = True, 0
        return order

    def drop(self, token: str) -> Order | None:
        """An order was refused. Return it."""
        return self.orders.pop(token, None)

    def _begin(self, id: str, kind: str, token: str, now: float) -> Machine:
        self._strangers.pop(id, None)
        machine = self.machines[id] = Machine(id, kind, STARTING, now, token, made_at=now)
        return machine

    # -- machines --------------------------------------------------------------------------------------------------

    def enter(self, machine: Machine, state: str, now: float, why: str = "") -> None:
        """Set a machine's state."""
        machine.state, machine.since, machine.why = state, now, why

    def live(self) -> list[Machine]:
        """Return the machines that are not being ended."""
        return [machine for machine in self.machines.values() if machine.state != TERMINATING]

    def count(self, kind: str | None = None) -> int:
        """Return how many machines there are or will be, those that are being ended left out."""
        coming = sum(order.count for order in self.orders.values() if kind in (None, order.kind))
        return coming + sum(kind in (None, machine.kind) for machine in self.live())

    def listed(self, listed: Sequence[ProvidedNode], joined: Mapping[str, str], now: float) -> list[Machine]:
        """Compare a provider's list with what is known; return machines of nobody, which are to be ended.

        `joined` are ids of machines whose nodes are in the cluster, with the node's id. They are taken over if nobody
        knows them, as after the loss of a journal.
        """
        there = {one.id: one for one in listed}
        for id in [id for id in self.machines if id not in there]:
            self._is_missing(self.machines[id], now)
        for id, one in there.items():
            machine = self.machines.get(id)
            if machine is not None:
                machine.missing = 0
            elif one.state != "stopping":
                self._is_strange(one, joined, now)
        self._strangers = {id: seen for id, seen in self._strangers.items() if id in there}
        for order in [order for order in self.orders.values() if order.lost]:
            order.lists += 1
            if order.lists >= 2 and now - order.at >= GONE_SECONDS:
                del self.orders[order.token]
        return [self._begin(id, there[id].kind, "", now) for id, seen in list(self._strangers.items()) if seen >= 2]

    def _is_missing(self, machine: Machine, now: float) -> None:
        if not machine.missing:
            machine.missing_since = now
        machine.missing += 1
        late = now - machine.missing_since >= GONE_SECONDS
        if machine.missing >= 2 and (late or machine.state == TERMINATING):
            del self.machines[machine.id]

    def _is_strange(self, one: ProvidedNode, joined: Mapping[str, str], now: float) -> None:
        order = next((order for order in self.orders.values() if order.lost and order.kind == one.kind), None)
        if order is not None:
            order.count -= 1
            self._begin(one.id, one.kind, order.token, now)
            if order.count <= 0:
                del self.orders[order.token]
        elif one.id in joined:
            self._begin(one.id, one.kind, "", now)
        elif not any(order.kind == one.kind for order in self.orders.values()):  # Or the answer is on its way.
            self._strangers[one.id] = self._strangers.get(one.id, 0) + 1

    # -- journal ---------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Return all as plain values, for a journal."""
        return {
            "numbered": self._numbered,
            "orders": [[getattr(one, name) for name in Order.__slots__] for one in self.orders.values()],
            "machines": [[getattr(one, name) for name in Machine.__slots__] for one in self.machines.values()],
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take what `plain` returned. What became of an order that was on its way is not known."""
        self._numbered = plain["numbered"]
        self.machines = {one.id: one for one in (Machine(*values) for values in plain["machines"])}
        self.orders = {one.token: one for one in (Order(*values) for values in plain["orders"])}
        for order in self.orders.values():
            order.lost, order.lists = True, 0
