"""Let a scaler add and remove nodes of a simulated cluster, as an autoscaler does for a real one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kernel_simulation import scalers
from kernel_simulation.agenda import Agenda
from kernel_simulation.cluster import Cluster
from kernel_simulation.distributions import FOREVER
from kernel_simulation.head import SimulatedGroup, SimulatedHead, SimulatedLease
from kernel_simulation.load import GANGS, NodeKind
from kernel_simulation.measures import Summary, Tally
from kernel_simulation.submitters import Submitter
from kernel_spec.ids import NodeId
from kernel_spec.labels import PROVIDER_ID_LABEL
from kernel_spec.resources import quantities

LOOK_SECONDS, BURST_SECONDS = 1.0, 0.25
"""How often the scaler is asked, at least, and at most when something new waits."""


class Scaling:
    """Asks `scaler`, and does what it says. Machines' nodes join `cluster` with the label of their machine."""

    def __init__(self, scaler: scalers.SimulatedScaler, head: SimulatedHead, cluster: Cluster, agenda: Agenda) -> None:
        self.scaler = scaler
        self._head = head
        self._cluster = cluster
        self._agenda = agenda
        self._nodes: dict[str, NodeId] = {}
        self._ended: set[str] = set()
        self._asked_at = -BURST_SECONDS
        self._waits = False

    def begin(self) -> None:
        """Ask for the first time, and from then on."""
        self._look_on(None)

    def notice(self) -> None:
        """Something has happened: ask, if something waits and nothing did before."""
        waits = bool(self._head.waiting or self._head.waiting_groups)
        if waits and not self._waits:
            soon = max(0.0, self._asked_at + BURST_SECONDS - self._agenda.now)
            self._agenda.after(soon, self._look, None, background=True)
        self._waits = waits

    def report(self, tallies: Iterable[Tally], pieces: int) -> Mapping[str, Any]:
        """Return the scaler's report, with the bound of the cost, and how long all work has waited."""
        found = dict(self.scaler.report())
        waits = Summary.of([wait for tally in tallies for wait in tally.waits])
        bound = _bound(tallies, self.scaler.prices)
        return {
            **found,
            "bound": bound,
            "launched_per_piece": found["launched"] / pieces if pieces else 0.0,
            "waiting": {"median": waits.median, "p99": waits.p99},
        }

    # -- asking ----------------------------------------------------------------------------------------------------

    def _look_on(self, _: None) -> None:
        self._agenda.after(LOOK_SECONDS, self._look_on, None, background=True)
        self._look(None)

    def _look(self, _: None) -> None:
        self._asked_at = self._agenda.now
        for step in self.scaler.look(self._demand(), self._agenda.now):
            self._do(*step)

    def _do(self, word: str, *said: Any) -> None:
        match word:
            case scalers.JOIN:
                machine, resources, labels, seconds = said
                kind = NodeKind(f"machine {machine}", 0, resources, {**labels, PROVIDER_ID_LABEL: machine})
                self._agenda.after(seconds, self._join, (machine, kind))
            case scalers.END:
                self._ended.add(said[0])
                self._cluster.end(self._nodes.get(said[0], NodeId(b"")))
            case scalers.DRAIN:
                self._cluster.drain(NodeId(bytes.fromhex(said[0])), FOREVER)
            case scalers.KEEP:
                self._cluster.keep(NodeId(bytes.fromhex(said[0])))
            case scalers.LOOK:
                self._agenda.after(max(0.001, said[0]), self._look, None, background=True)

    def _join(self, what: tuple[str, NodeKind]) -> None:
        machine, kind = what
        if machine not in self._ended:
            self._nodes[machine] = self._cluster.join(kind)

    # -- what kernel.demand() would say ----------------------------------------------------------------------------

    def _demand(self) -> dict[str, Any]:
        head, now = self._head, self._agenda.now
        available, used = head.scheduler.snapshot().available, head.used_nodes()
        return {
            "shapes": _shapes(head.waiting.values()),
            "groups": [_group(group) for group in head.waiting_groups.values()],
            "asked": [],
            "nodes": [
                {
                    "node_id": id.hex(),
                    "provider_id": node.labels.get(PROVIDER_ID_LABEL, ""),
                    "is_head": False,
                    "state": "DRAINING" if id in head.draining else "ALIVE",
                    "total": dict(node.total),
                    "available": quantities(available.get(id, {})),
                    "labels": dict(node.labels),
                    "idle_seconds": None if id in used else now - head.idle_since[id],
                }
                for id, node in head.nodes.items()
            ],
        }


def _shapes(waiting: Iterable[SimulatedLease]) -> list[dict[str, Any]]:
    """Return a row for all requests outside of groups that want the same, with the tasks behind them."""
    rows: dict[Any, dict[str, Any]] = {}
    counted: set[int] = set()
    for lease in waiting:
        request, holder = lease.request, lease.holder
        if request.group is not None:
            continue
        key = (tuple(sorted(request.wanted.items())), repr(request.strategy))
        if key not in rows:
            row = rows[key] = {"wanted": quantities(request.wanted), "strategy": request.strategy, "requests": 0}
            row |= {"backlog": 0, "backlog_seconds": 0.0, "names": [request.name]}
        rows[key]["requests"] += 1
        if isinstance(holder, Submitter) and id(holder) not in counted:
            counted.add(id(holder))
            rows[key]["backlog"] += holder.backlog
            rows[key]["backlog_seconds"] += holder.backlog_seconds
    return list(rows.values())


def _group(group: SimulatedGroup) -> dict[str, Any]:
    request = group.request
    return {
        "placement_group_id": request.id.hex(),
        "strategy": request.strategy,
        "bundles": {number: quantities(bundle) for number, bundle in enumerate(request.bundles)},
        "bundles_to_node_id": {number: bundle.node.hex() for number, bundle in group.bundles.items()},
        "labels": [dict(wanted) for wanted in request.labels],
    }


def _bound(tallies: Iterable[Tally], prices: Mapping[str, float]) -> float | None:
    """Return what the work costs at least: its most expensive resource at the least price; None if it never ends."""
    hours: dict[str, float] = {}
    for tally in tallies:
        if tally.endless:
            return None
        work = tally.work
        for wanted in work.bundles if work.form == GANGS else (work.resources,):
            for name, quantity in wanted.items():
                hours[name] = hours.get(name, 0.0) + quantity * sum(tally.durations) / 3600
    return max((amount * prices.get(name, 0.0) for name, amount in hours.items()), default=0.0)
