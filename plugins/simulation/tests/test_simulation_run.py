"""Simulated runs: nothing is lost, nothing depends on real time, broken schedulers are found out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from kernel_simulation import SCENARIOS, Load, NodeKind, Report, Simulation, load_from, scenario

from kernel_spec import scheduling as s
from kernel_spec.errors import ContractError, PluginError
from kernel_spec.ids import NodeId
from kernel_spec.resources import CPU, UNIT, Allocation
from plugins.simulation.tests.flat_scheduler import FlatScheduler


def load_of(*work: Mapping[str, Any], nodes: int = 2, cpus: int = 4, **more: Any) -> Load:
    """Return a load of plain nodes; each work is tasks of one second unless it says otherwise."""
    kinds = [{"kind": "plain", "count": nodes, "resources": {"CPU": cpus}, **more.pop("kind", {})}]
    rows = [{"name": f"w{number}", "duration": 1.0, **row} for number, row in enumerate(work)]
    return load_from({"nodes": kinds, "work": rows, **more}, "test")


class Recorder(FlatScheduler):
    """Remembers every event and answer."""

    seen: list[tuple[float, s.Event, list[s.Instruction]]]

    def __init__(self) -> None:
        super().__init__()
        self.seen = []

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        answer = super().handle(event, now)
        self.seen.append((now, event, answer))
        return answer

    def events(self, kind: type) -> list[tuple[float, Any]]:
        return [(now, event) for now, event, _ in self.seen if type(event) is kind]


def run(load: Load, make: Callable[[], s.Scheduler] = FlatScheduler, seed: int = 1, check: bool = True) -> Report:
    return Simulation(load, make, seed, check).run()


def recorded(load: Load) -> tuple[Report, Recorder]:
    simulation = Simulation(load, Recorder, 1, True)
    report = simulation.run()
    assert isinstance(simulation.head.scheduler, Recorder)
    return report, simulation.head.scheduler


def simulated(report: Report) -> dict[str, Any]:
    """Return all of a report that does not depend on real time."""
    data = report.as_data()
    del data["real_seconds"]
    data["decisions"] = data["decisions"]["count"]
    return data


# -- the same run twice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["burst", "two-jobs", "churn"])
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    load = scenario(name, 12, 600)
    first, again, other = (simulated(run(load, seed=seed)) for seed in (3, 3, 4))
    assert first == again
    assert first["makespan"] != other["makespan"]


def test_every_event_comes_at_the_same_moment_again() -> None:
    load = scenario("churn", 8, 300)
    assert recorded(load)[1].seen == recorded(load)[1].seen


# -- conservation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["burst", "two-jobs", "churn"])
def test_every_piece_is_done_or_reported(name: str) -> None:
    report = run(scenario(name, 16, 1000))
    assert [(work.done + work.failed, work.left) for work in report.work] == [(work.count, 0) for work in report.work]
    assert all(work.waiting.max >= work.waiting.median >= 0 for work in report.work)
    if name == "churn":
        assert report.nodes_lost > 0 and sum(work.lost_runs for work in report.work) > 0


def test_the_figures_of_a_small_run_are_right() -> None:
    report = run(load_of({"tasks": 8, "duration": 10.0}, nodes=1, grant_seconds=0.0))
    assert report.makespan == 20.0
    (work,) = report.work
    assert (work.waiting.mean, work.waiting.max) == (5.0, 10.0)
    assert report.used == report.held == {"CPU": 1.0}
    assert work.leases == 4, "four leases for eight tasks: each is used twice"


def test_what_no_scheduler_places_is_left_with_its_explanation() -> None:
    report = run(load_of({"gangs": 1, "bundles": [{"CPU": 1}] * 9}, {"tasks": 3}))
    gang, tasks = report.work
    assert (gang.left, gang.reason) == (1, "busy: every CPU is taken")
    assert (tasks.done, tasks.reason, report.left) == (3, "", 1)


def test_a_run_can_be_cut_short() -> None:
    load = load_of({"tasks": 80, "duration": 10.0}, nodes=1)
    report = Simulation(load, FlatScheduler).run(until=25.0)
    assert 4 <= report.work[0].done <= 8 and report.left == 80 - report.work[0].done
    assert report.makespan <= 25.0


# -- how processes use leases --------------------------------------------------------------------------------------


def test_a_process_keeps_a_lease_while_it_has_tasks_and_returns_it_when_idle() -> None:
    _, scheduler = recorded(load_of({"tasks": 100, "duration": 0.01}, nodes=1, cpus=1))
    (released,) = [now for now, _ in scheduler.events(s.LeaseReleased)]
    granted = [now for now, _, answer in scheduler.seen for step in answer if isinstance(step, s.Grant)]
    assert len(granted) == 1
    assert released == pytest.approx(granted[0] + 0.001 + 100 * 0.01 + 0.1)


def test_a_process_asks_for_sixteen_leases_at_a_time() -> None:
    simulation = Simulation(load_of({"tasks": 100, "processes": 2}, nodes=1, cpus=1), FlatScheduler)
    simulation.run(until=0.5)
    assert len(simulation.head.waiting) == 32


def test_a_lease_that_is_asked_back_is_returned_after_its_task() -> None:
    class Asking(Recorder):
        def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
            answer = super().handle(event, now)
            if isinstance(event, s.Tick) and self.granted:
                answer.append(s.Reclaim(next(iter(self.granted))))
            return answer

    report = run(load_of({"tasks": 4}, nodes=1, cpus=1), Asking)
    assert report.work[0].done == 4 and report.reclaims >= 3
    assert report.work[0].leases == 4, "each lease is asked back during its first task"


def test_a_blocked_task_lends_its_cpu_until_it_ends() -> None:
    report, scheduler = recorded(load_of({"tasks": 1, "duration": 10.0, "blocked": 0.25}, nodes=1, cpus=1))
    assert [now for now, _ in scheduler.events(s.LeaseBlocked)] == [pytest.approx(7.501)]
    assert [now for now, _ in scheduler.events(s.LeaseUnblocked)] == [pytest.approx(10.001)]
    assert report.used["CPU"] == pytest.approx(0.75, rel=0.01)


# -- what is taken away --------------------------------------------------------------------------------------------


class Preempting(FlatScheduler):
    """Ends one lease at each of its first three ticks."""

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        answer = super().handle(event, now)
        self.ticks = getattr(self, "ticks", 0) + isinstance(event, s.Tick)
        if isinstance(event, s.Tick) and self.ticks <= 3:
            answer.append(s.Preempt(next(iter(self.granted)), "somebody else needs it"))
        return answer


def test_preempted_work_runs_again_and_costs_no_retry() -> None:
    load = load_of({"tasks": 20, "preemptible": True, "retries": 0}, nodes=1)
    report = run(load, Preempting)
    (work,) = report.work
    assert (work.done, work.failed, report.preemptions, work.lost_runs) == (20, 0, 3, 3)
    assert work.lost_seconds > 0 and report.used["CPU"] < report.held["CPU"]


def test_what_dies_with_its_node_runs_again_as_often_as_it_may() -> None:
    changes = [{"at": at + 0.5, "action": "fail"} for at in range(6)]
    changes += [{"at": at + 0.6, "action": "join"} for at in range(6)]
    work = {"tasks": 1, "duration": 2.0}
    failed = run(load_of({**work, "retries": 3}, nodes=1, changes=changes)).work[0]
    assert (failed.failed, failed.lost_runs) == (1, 4)
    done = run(load_of({**work, "retries": 10}, nodes=1, changes=changes)).work[0]
    assert (done.done, done.lost_runs) == (1, 6)


def test_actors_and_gangs_move_when_their_node_dies() -> None:
    changes = [{"at": 5.0, "action": "fail"}, {"at": 6.0, "action": "join"}]
    actors = {"actors": 8, "duration": 10.0}
    gangs = {"gangs": 2, "duration": 10.0, "bundles": [{"CPU": 1}] * 4}
    for work in (actors, gangs):
        report, scheduler = recorded(load_of(work, changes=changes))
        assert report.work[0].done == work.get("actors", 2) and report.work[0].lost_runs == 4
        assert report.makespan == pytest.approx(16.0, abs=0.1)
        assert scheduler.waiting == {} and scheduler.granted == {} and scheduler.groups == {}


def test_a_gang_that_has_lost_too_often_fails_once_and_gives_everything_back() -> None:
    changes = [{"at": 5.0, "action": "fail"}, {"at": 6.0, "action": "join"}]
    gangs = {"gangs": 1, "duration": 10.0, "bundles": [{"CPU": 1}] * 6, "retries": 0}
    report, scheduler = recorded(load_of(gangs, {"tasks": 4, "duration": 20.0}, changes=changes))
    gang, tasks = report.work
    assert (gang.failed, gang.done, tasks.done) == (1, 0, 4)
    assert scheduler.waiting == {} and scheduler.granted == {} and scheduler.groups == {}


def test_a_drained_node_is_told_first_and_leaves_when_it_is_empty() -> None:
    changes = [{"at": 2.5, "action": "drain", "seconds": 100.0}]
    report, scheduler = recorded(load_of({"tasks": 80}, changes=changes))
    ((told, draining),) = scheduler.events(s.NodeDraining)
    ((left, removed),) = scheduler.events(s.NodeRemoved)
    assert (told, draining.node) == (2.5, removed.node) and left == pytest.approx(3.5)
    assert report.work[0].lost_runs == 0, "what ran there was done first"


def test_a_drained_node_leaves_at_its_deadline_with_what_still_runs() -> None:
    changes = [{"at": 2.5, "action": "drain", "seconds": 3.0}]
    report, scheduler = recorded(load_of({"tasks": 8, "duration": 20.0}, changes=changes))
    assert [left for left, _ in scheduler.events(s.NodeRemoved)] == [5.5]
    assert report.work[0].lost_runs == 4 and report.work[0].done == 8


def test_a_resource_is_set_while_the_cluster_runs() -> None:
    changes = [{"at": 0.5, "action": "set_resource", "resource": "blue", "quantity": 2}]
    _, scheduler = recorded(load_of({"tasks": 8}, changes=changes))
    assert [(now, event.name, event.quantity) for now, event in scheduler.events(s.ResourceChanged)] == [
        (0.5, "blue", 2.0)
    ]


def test_a_restarted_head_tells_a_new_scheduler_what_there_is() -> None:
    work = [{"gangs": 1, "duration": 20.0, "bundles": [{"CPU": 1}] * 2}, {"tasks": 40, "duration": 5.0}]
    changes = [{"at": 1.0, "action": "drain", "seconds": 60.0}, {"at": 2.0, "action": "restart_head"}]
    report, scheduler = recorded(load_of(*work, nodes=3, changes=changes))
    assert report.left == 0 and all(work.lost_runs == 0 for work in report.work)
    first = [type(event).__name__ for now, event, _ in scheduler.seen if now == 2.0]
    assert first[:4] == ["NodeAdded"] * 3 + ["NodeDraining"]
    held = [name for name in first if name.endswith("Held")]
    assert held == ["LeaseHeld"] * 10 + ["GroupHeld"] + ["LeaseHeld"] * 2
    assert first[-16:] == ["LeaseRequested"] * 16


# -- broken schedulers ---------------------------------------------------------------------------------------------


class Overcommitting(FlatScheduler):
    """Gives everything on one node."""

    name = "greedy"

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        if not isinstance(event, s.LeaseRequested):
            return []
        return [s.Grant(event.request.id, NodeId(b"node\0\0\0\1"), Allocation({CPU: UNIT}))]


class Wrong(FlatScheduler):
    """Answers the first request with `answer`, which may be made from the request's id."""

    answer: Callable[[Any], Any]

    def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
        return [type(self).answer(event.request.id)] if isinstance(event, s.LeaseRequested) else []


NODE = NodeId(b"node\0\0\0\1")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda id: s.Grant(s.LeaseId(b"stranger"), NODE, Allocation({CPU: UNIT})), "a lease that nobody waits for"),
        (lambda id: s.Grant(id, NodeId(b"nowhere!"), Allocation({CPU: UNIT})), "a node that is not there"),
        (lambda id: s.Grant(id, NODE, Allocation({CPU: 2 * UNIT})), "but CPU: 1 was asked for"),
        (lambda id: s.PlaceGroup(s.GroupId(b"stranger"), ()), "a group that does not wait"),
        (lambda id: "yes", "which is no instruction"),
    ],
)
def test_a_wrong_answer_is_named(answer: Callable[[Any], Any], problem: str) -> None:
    broken = type("Broken", (Wrong,), {"answer": staticmethod(answer)})
    with pytest.raises(ContractError, match=problem):
        run(load_of({"tasks": 1}), broken)


def test_overcommitting_is_noticed_when_asked_to_check() -> None:
    load = load_of({"tasks": 10})
    with pytest.raises(ContractError, match=r"scheduler 'greedy', at 0\.\d+ s and event \d+, returned .* only CPU: 4"):
        run(load, Overcommitting)
    assert run(load, Overcommitting, check=False).work[0].done == 10


def test_preempting_what_may_not_be_is_noticed() -> None:
    with pytest.raises(ContractError, match="for a lease that is not preemptible"):
        run(load_of({"tasks": 20, "preemptible": False}, nodes=1), Preempting)


def test_a_scheduler_that_raises_is_named_with_the_event() -> None:
    class Raising(FlatScheduler):
        name = "glass"

        def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
            raise KeyError("lost")

    with pytest.raises(PluginError, match="scheduler 'glass', at 0.000 s and event 1, raised KeyError for NodeAdded"):
        run(load_of({"tasks": 1}), Raising)


def test_a_broken_invariant_is_found_while_checking() -> None:
    class Invalid(FlatScheduler):
        def validate(self) -> None:
            assert not self.granted, "somebody holds something"

    load = load_of({"tasks": 1})
    with pytest.raises(PluginError, match="does not hold its own invariants: somebody holds something"):
        run(load, Invalid)
    assert run(load, Invalid, check=False).left == 0


# -- what it is for ------------------------------------------------------------------------------------------------


def steps_per_decision(nodes: int) -> float:
    simulation = Simulation(scenario("burst", nodes, 20 * nodes), FlatScheduler, seed=1)
    report = simulation.run()
    assert report.left == 0 and isinstance(simulation.head.scheduler, FlatScheduler)
    return simulation.head.scheduler.steps / report.decisions.count


def test_a_flat_scheduler_is_seen_to_be_flat() -> None:
    few, many = steps_per_decision(10), steps_per_decision(1000)
    assert many <= 3 * few, f"{few:.2f} steps a decision at 10 nodes, {many:.2f} at 1000"


def test_a_scheduler_that_goes_through_all_nodes_is_seen_to() -> None:
    class Linear(FlatScheduler):
        def handle(self, event: s.Event, now: float) -> list[s.Instruction]:
            self.steps += len(self.free)
            return super().handle(event, now)

    def steps(nodes: int) -> float:
        simulation = Simulation(scenario("burst", nodes, 20 * nodes), Linear, seed=1)
        return simulation.run().decisions.count and simulation.head.scheduler.steps / simulation.head.events

    assert steps(200) > 5 * steps(10)


def test_every_scenario_fits_any_size() -> None:
    for name in SCENARIOS:
        for nodes, tasks in ((1, 1), (3, 50), (500, 2000)):
            load = scenario(name, nodes, tasks)
            assert sum(kind.count for kind in load.nodes) in (nodes, nodes + 1)
            assert sum(work.count for work in load.work) <= 2 * tasks + nodes + 10
            assert all(isinstance(kind, NodeKind) for kind in load.nodes)
