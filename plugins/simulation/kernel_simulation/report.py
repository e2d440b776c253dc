"""The results of a run, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kernel_simulation.agenda import Agenda
from kernel_simulation.cluster import Cluster
from kernel_simulation.head import SimulatedHead
from kernel_simulation.load import GANGS, Load
from kernel_simulation.measures import Remaining, Summary, Tally
from kernel_spec.dataclass import dataclass
from kernel_spec.scheduling import Reason


@dataclass(frozen=True, slots=True)
class WorkReport:
    """The outcome of one class of work. `waiting` is in simulated seconds from arrival to start.

    Of `count` pieces, `done` and `failed` have ended, and `left` have not; `reason` says why, in the scheduler's words,
    for one of those that never got anything. `local` is the share of leases that lay where their arguments do.
    """

    name: str
    form: str
    count: int
    done: int
    failed: int
    left: int
    waiting: Summary
    lost_runs: int
    lost_seconds: float
    leases: int
    local: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decisions:
    """The cost of decisions, in real time. A decision is one event handled, of whatever kind."""

    count: int
    seconds: float
    per_second: float
    microseconds: Summary
    by_event: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Report:
    """One run of one scheduler. Everything but `decisions` and `real_seconds` is the same in every run.

    `makespan` is in simulated seconds, from the beginning to the end of the last piece of work. `used` is the share of
    each resource that did useful work meanwhile, `held` the share that was leased or reserved. `scaling` is there if an
    autoscaler took part: `node_hours`, `cost`, the `idle_cost` in it, the `bound` below which no plan comes (None
    for work that never ends), `launched`, `launched_per_piece`, `busy_ended`, `flaps`, and `waiting` of all work.
    """

    scheduler: str
    load: str
    seed: int
    nodes: int
    nodes_lost: int
    makespan: float
    used: Mapping[str, float]
    held: Mapping[str, float]
    work: tuple[WorkReport, ...]
    reclaims: int
    preemptions: int
    decisions: Decisions
    real_seconds: float
    scaling: Mapping[str, Any] | None = None

    @property
    def left(self) -> int:
        """The number of pieces of work that are neither done nor failed."""
        return sum(work.left for work in self.work)

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        return asdict(self)


def make_report(
    load: Load,
    seed: int,
    agenda: Agenda,
    head: SimulatedHead,
    cluster: Cluster,
    tallies: Sequence[Tally],
    remaining: Remaining,
    real_seconds: float,
) -> Report:
    """Return what the parts of a simulation have shown until now."""
    now = agenda.now
    capacity = {name: total.until(now) for name, total in sorted(cluster.capacity.items())}
    used, held = dict.fromkeys(capacity, 0.0), dict.fromkeys(capacity, 0.0)
    for tally in tallies:
        _add_use(tally, now, used, held)
    return Report(
        scheduler=head.scheduler.name,
        load=load.name,
        seed=seed,
        nodes=sum(kind.count for kind in load.nodes),
        nodes_lost=cluster.lost,
        makespan=now if not remaining.count else agenda.idle_since,
        used={name: used[name] / total if total else 0.0 for name, total in capacity.items()},
        held={name: held[name] / total if total else 0.0 for name, total in capacity.items()},
        work=tuple(_work_report(head, tally) for tally in tallies),
        reclaims=head.reclaims,
        preemptions=head.preemptions,
        decisions=_decisions(head),
        real_seconds=real_seconds,
    )


def _add_use(tally: Tally, now: float, used: dict[str, float], held: dict[str, float]) -> None:
    """Add what one class of work used and held, in resource seconds."""
    work = tally.work
    useful = tally.running.until(now) - tally.lost_seconds
    if work.form == GANGS:
        whole: dict[str, float] = {}
        for bundle in work.bundles:
            for name, quantity in bundle.items():
                whole[name] = whole.get(name, 0.0) + quantity
        part = {name: quantity / len(work.bundles) for name, quantity in whole.items()}
    else:
        whole = part = dict(work.resources)
    for name in whole.keys() & used.keys():
        lent = tally.blocked.until(now) if name == "CPU" else 0.0
        used[name] += part[name] * max(0.0, useful - lent)
        held[name] += whole[name] * tally.held.until(now)


def _work_report(head: SimulatedHead, tally: Tally) -> WorkReport:
    work, left = tally.work, tally.left
    assert tally.done + tally.failed + left == work.count, f"work is missing in {work.name}"
    reason = _reason(head, tally) if left else None
    return WorkReport(
        name=work.name,
        form=work.form,
        count=work.count,
        done=tally.done,
        failed=tally.failed,
        left=left,
        waiting=Summary.of(tally.waits),
        lost_runs=tally.lost_runs,
        lost_seconds=tally.lost_seconds,
        leases=tally.grants,
        local=tally.local_grants / tally.grants if tally.grants and work.input_bytes else 0.0,
        reason=f"{reason.code}: {reason.text}" if reason is not None else "",
    )


def _reason(head: SimulatedHead, tally: Tally) -> Reason | None:
    """Return why the first of a class that waits does so; None when nothing of it waits for the scheduler."""
    for id, lease in head.waiting.items():
        if lease.holder.tally is tally:
            return head.explain(id)
    for group_id, group in head.waiting_groups.items():
        if group.holder.tally is tally:
            return head.explain(group_id)
    return None


def _decisions(head: SimulatedHead) -> Decisions:
    stopwatch = head.stopwatch
    count, seconds = stopwatch.count, stopwatch.seconds
    by_event = {}
    for event in sorted(stopwatch.taken, key=lambda event: event.__name__):
        cost = stopwatch.microseconds(event)
        number = len(stopwatch.taken[event])
        by_event[event.__name__] = {"count": number, "median": cost.median, "p99": cost.p99, "max": cost.max}
    return Decisions(count, seconds, count / seconds if seconds else 0.0, stopwatch.microseconds(), by_event)
