"""Failures that other autoscalers are known for, replayed: none of them happens here."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kernel_autoscaler.core import events
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.machines import DRAINING, RUNNING, STARTING
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.core.snapshot import NodeView, Snapshot, WaitingShape
from kernel_autoscaler.simulated.cloud import SimulatedCloud
from kernel_autoscaler.simulated.cluster import SimulatedWork
from kernel_autoscaler.simulated.run import SimulatedOutcome, SimulatedRun

from kernel_spec.resources import amounts
from plugins.autoscaler.tests.test_autoscaler_decisions import World, created, wants

POD = Kind("pod", amounts({"CPU": 4}), price=0.2, boot_seconds=30.0)


class SlowCloud(SimulatedCloud):
    """Runs the first `quick` machines as usual, and each later one only after `boot_seconds`."""

    quick, boot_seconds = 2, 5000.0

    def create(self, kind: str, count: int, join: Any, token: str = "") -> Sequence[str]:
        known = len(self.machines)
        ids = super().create(kind, count, join, token)
        for number, id in enumerate(ids, known):
            if number >= self.quick:
                self.machines[id].runs_at = self.machines[id].made_at + self.boot_seconds
        return ids


def replay(
    *work: SimulatedWork,
    kinds: Sequence[Kind] = (POD,),
    cloud: type[SimulatedCloud] = SimulatedCloud,
    capacity: dict[str, int] | None = None,
    never_joins: Callable[[str], bool] = lambda id: False,
    **settings: Any,
) -> SimulatedRun:
    """Return a run of this work over machines of these kinds."""
    return SimulatedRun(
        kinds,
        Settings(**{"idle_seconds": 60.0, "join_seconds": 300.0, **settings}),
        lambda clock: cloud(kinds, clock, random.Random(1), capacity),
        work,
        never_joins=never_joins,
    )


def pieces(at: float, count: int, seconds: float, **wanted: float) -> SimulatedWork:
    return SimulatedWork(at, amounts(wanted), seconds, count)


def is_right(outcome: SimulatedOutcome, served: int, launched: int) -> bool:
    """Return whether a run served all, with so many machines, and ended none that was busy or wanted again."""
    assert (outcome.served, outcome.launched) == (served, launched)
    assert (outcome.busy_ended, outcome.cut_off, outcome.flaps) == (0, 0, 0)
    return True


def test_requests_that_wait_for_something_else_do_not_keep_an_idle_node() -> None:
    # Requests that were queued on a node and then went elsewhere set its idle time back to zero, every few seconds.
    license = Kind("license", amounts({"license": 1}), price=1.0, boot_seconds=30.0, maximum=1)
    waiting = [pieces(float(at), 1, 20.0, license=1) for at in range(0, 600, 5)]
    run = replay(pieces(0.0, 4, 10.0, CPU=1), *waiting, kinds=[POD, license])
    run.until(600.0)
    (pod,) = [one for one in run.cloud.machines.values() if one.kind == "pod"]
    assert len(run.cluster.waiting) > 50 and pod.ended_at is not None
    assert pod.ended_at < pod.runs_at + 10.0 + 60.0 + 5.0


def test_copies_of_objects_do_not_keep_an_idle_node() -> None:
    # Copies of other nodes' objects took store memory, and a node that is not entirely free was never idle.
    world = World(Kind("node", amounts({"CPU": 4, "object_store_memory": 1e9}), price=0.2))
    (machine,) = world.made(1, "node")
    total = world.kinds["node"].resources
    free = {**total, "object_store_memory": total["object_store_memory"] // 2}
    world.nodes = {"n": NodeView(f"node-{machine}", total, free, machine, idle_seconds=301.0)}
    assert [type(step) for step in world.see()] == [events.Drain]


def test_requests_of_nodes_that_have_just_joined_are_not_bought_for_again() -> None:
    # Running tasks were still counted as waiting while the first nodes joined, and three more nodes were started.
    world = World(Kind("worker", amounts({"CPU": 16, "memory": 120e9}), price=1.0))
    task = amounts({"CPU": 1, "memory": 30e9})
    assert created(world.see(WaitingShape(task, requests=48))) == {"worker": 12}
    (order,) = world.autoscaler.machines.orders
    world.tell(events.Created(order, [f"m{number}" for number in range(12)]))
    for joined in range(1, 13):  # Nothing has been granted yet, then ten tasks run, and the rest waits.
        world.node(f"m{joined - 1}")
        assert created(world.see(WaitingShape(task, requests=48))) == {}
    for number in (0, 1, 2):
        world.node(f"m{number}", busy={"CPU": 4, "memory": 120e9})
    assert created(world.see(WaitingShape(task, requests=36))) == {}


def test_room_that_is_asked_for_is_not_given_back_and_bought_again_in_turn() -> None:
    # What was kept free in advance was ended as idle, and then missed at once: for ever.
    run = replay()
    run.cluster.asked = [amounts({"CPU": 4})] * 3
    outcome = run.until(3000.0)
    assert is_right(outcome, served=0, launched=3) and len(run.cloud.living()) == 3


def test_machines_that_are_still_pending_do_not_outlive_the_work() -> None:
    # Pods that waited for capacity came one after the other when all was done, and each was idle for its time.
    run = replay(pieces(0.0, 40, 60.0, CPU=1), cloud=SlowCloud, join_seconds=10_000.0, backlog_seconds=1.0)
    outcome = run.until(1000.0)
    assert is_right(outcome, served=40, launched=10)
    done = max(outcome.waits) + 60.0
    ended = [one.ended_at for one in run.cloud.machines.values()]
    assert all(at is not None and at < done + 60.0 + 10.0 for at in ended), "none of them waited for its start"


def test_pending_machines_are_kept_while_something_needs_them() -> None:
    run = replay(pieces(0.0, 3, 500.0, CPU=4), cloud=SlowCloud, join_seconds=10_000.0)
    run.until(400.0)
    assert len(run.cloud.living()) == 3
    outcome = run.until(6000.0)
    assert outcome.served == 3 and outcome.launched == 3


def test_a_node_that_got_work_while_it_was_about_to_go_is_not_ended() -> None:
    # A pod was chosen as idle and deleted, with the work that had come in between.
    world = World()
    (machine,) = world.made(1)
    world.node(machine, idle=301.0)
    assert [type(step) for step in world.see()] == [events.Drain]
    for state in ("DRAINING", "ALIVE"):
        world.now += 20.0
        world.node(machine, busy={"CPU": 1}, state=state)
        assert world.see() == [] and world.state(machine) == (DRAINING if state == "DRAINING" else RUNNING)


def test_machines_that_never_join_are_not_made_by_the_hundred() -> None:
    # Pods on nodes that were broken stayed pending, were given up and made again: hundreds.
    broken = Kind("broken", amounts({"CPU": 4}), price=0.1, boot_seconds=30.0)
    run = replay(pieces(0.0, 3, 30_000.0, CPU=4), kinds=[broken, POD])
    run._never_joins = lambda id: run.cloud.machines[id].kind == "broken"
    run.until(3000.0)
    made = [one.kind for one in run.cloud.machines.values()]
    assert made.count("pod") == 3, "the next kind has served it"
    assert made.count("broken") == 3, "there was no reason to try again"
    run = replay(pieces(0.0, 3, 30_000.0, CPU=4), kinds=[broken], never_joins=lambda id: True)
    run.until(5000.0)
    assert len(run.cloud.machines) == 3 * 9, "the pauses are twice as long each time"
    assert max(_at_once(run.cloud)) <= 3


def _at_once(cloud: SimulatedCloud) -> list[int]:
    """Return how many machines there were whenever one was made."""
    machines = cloud.machines.values()
    return [
        sum(one.made_at <= at.made_at and (one.ended_at is None or one.ended_at > at.made_at) for one in machines)
        for at in machines
    ]


def test_work_that_runs_out_takes_machines_away_and_brings_no_new_ones() -> None:
    # 900 tasks of an hour ended one by one; for the last two requests machines came and went all the time.
    kind = Kind("process", amounts({"CPU": 15}), price=0.6, boot_seconds=30.0, maximum=30)
    dice = random.Random(3)
    work = [pieces(0.0, 15, dice.uniform(300.0, 390.0), CPU=1) for _ in range(30)]
    late = [pieces(370.0 + at, 2, 20.0, CPU=1) for at in range(0, 60, 10)]
    run = replay(*work, *late, kinds=[kind])
    outcome = run.until(700.0)
    assert is_right(outcome, served=462, launched=30) and not run.cloud.living()


def test_a_machine_with_less_than_promised_is_not_bought_again_and_again() -> None:
    # What the system takes of a machine left too little for the task; a next one was made until the cluster was full.
    run = replay(pieces(0.0, 1, 10.0, CPU=6), kinds=[Kind("six", amounts({"CPU": 6}), price=0.3, boot_seconds=30.0)])
    run.cluster._kinds = {"six": Kind("six", amounts({"CPU": 5.5}))}
    outcome = run.until(1000.0)
    assert outcome.launched == 1 and not run.cloud.living(), "the first has shown that it does not help"
    (unmet,) = run.autoscaler.unmet
    assert unmet.why == "no kind of machine is large enough: six, the nearest, lacks CPU: 0.5"


def test_a_large_machine_comes_for_what_does_not_fit_on_small_ones() -> None:
    # Tasks with little CPU and much memory waited for ever beside small nodes with free CPUs.
    small = Kind("small", amounts({"CPU": 4, "memory": 8e9}), price=0.1)
    medium = Kind("medium", amounts({"CPU": 8, "memory": 32e9}), price=0.3)
    large = Kind("large", amounts({"CPU": 16, "memory": 128e9}), price=1.0)
    run = replay(
        pieces(0.0, 20, 300.0, CPU=0.1, memory=1e8),
        *[pieces(30.0, 1, 60.0, CPU=0.1, memory=megabytes * 1e6) for megabytes in (94, 136, 179, 60_000)],
        kinds=[small, medium, large],
    )
    outcome = run.until(1000.0)
    assert is_right(outcome, served=24, launched=2)
    assert [one.kind for one in run.cloud.machines.values()] == ["small", "large"]


def test_what_was_made_in_part_is_completed_later() -> None:
    # Eleven actors wanted a pod each; eight came, and the scaler stalled over the other three.
    run = replay(pieces(0.0, 11, 2000.0, CPU=4), capacity={"pod": 8})
    run.until(100.0)
    assert len(run.cloud.machines) == 8
    run.cloud.capacity = {}
    outcome = run.until(3000.0)
    assert is_right(outcome, served=11, launched=11)


def test_machines_that_are_coming_are_not_bought_again_at_each_look() -> None:
    # A node was added every 10 to 20 seconds until the first had become ready: six for one pod.
    slow = Kind("slow", amounts({"CPU": 4}), price=0.2, boot_seconds=300.0)
    outcome = replay(pieces(0.0, 1, 30.0, CPU=1), kinds=[slow]).until(1000.0)
    assert is_right(outcome, served=1, launched=1)


def test_a_machine_that_holds_more_than_is_wanted_is_not_called_off_before_it_comes() -> None:
    # A job with several workers was more than was wanted: it was cancelled before it ran, and submitted again.
    job = Kind("job", amounts({"CPU": 20}), price=1.0, boot_seconds=120.0)
    run = replay(pieces(0.0, 5, 30.0, CPU=1), kinds=[job], idle_seconds=30.0)
    run.until(80.0)
    assert [one.state for one in run.autoscaler.machines.machines.values()] == [STARTING]
    assert is_right(run.until(600.0), served=5, launched=1)


def test_a_wish_that_is_changed_leaves_nothing_of_the_one_before() -> None:
    # A limit that was set a second time left the first at work: one of the two started workers, the other ended them.
    run = replay()
    for seconds, cpus in ((20.0, 16), (2000.0, 8)):
        run.cluster.asked = [amounts({"CPU": 4})] * (cpus // 4)
        outcome = run.until(run.now + seconds)
    assert is_right(outcome, served=0, launched=4) and len(run.cloud.living()) == 2


def test_a_machine_whose_making_was_cut_off_is_found_again() -> None:
    # The process died after the cloud had made an instance and before that was written down: it ran for weeks.
    for repeats in (True, False):
        run = replay(pieces(0.0, 2, 30.0, CPU=4), repeats=repeats)
        run.until(0.0)
        run.autoscaler.handle(events.Observed(run.cluster.snapshot(0.0)), 0.1)
        (order,) = run.autoscaler.machines.orders.values()
        made = run.cloud.create("pod", 2, {}, order.token if repeats else "")
        run._journal = run.autoscaler.plain()  # It has the order. The answer never came.
        run._restart()
        outcome = run.until(600.0)
        assert outcome.served == 2 and not run.cloud.living()
        assert len(run.cloud.machines) == 2 or not repeats, "with a token even the same two serve"
        assert all(run.cloud.machines[id].ended_at is not None for id in made)


def test_a_look_at_nothing_does_nothing() -> None:
    world = World()
    assert world.tell(events.Observed(Snapshot())) == [] and world.see(wants(count=0)) == []
