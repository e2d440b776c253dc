"""Placement groups over several nodes: where bundles lie, what runs in them, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kernel
from kernel.testing.cluster import Cluster
from kernel_spec.errors import (
    ActorDiedError,
    InfeasibleError,
    NameTakenError,
    OptionError,
    PlacementGroupNotFoundError,
    PlacementGroupRemovedError,
)

Inside = kernel.PlacementGroupSchedulingStrategy
SECONDS = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes of two CPUs."""
    kernel.shutdown()
    with Cluster(num_cpus=2) as cluster:
        cluster.add_node(num_cpus=2)
        cluster.add_node(num_cpus=2)
        cluster.connect(namespace="space")
        yield cluster


@pytest.fixture
def make(cluster: Cluster, eventually: Callable[..., Any]) -> Iterator[Callable[..., kernel.PlacementGroup]]:
    """Make placement groups, which end with the test; then all of the cluster is free again."""
    made: list[kernel.PlacementGroup] = []

    def make(*arguments: Any, **options: Any) -> kernel.PlacementGroup:
        made.append(kernel.placement_group(*arguments, **options))
        return made[-1]

    yield make
    for group in made:
        kernel.remove_placement_group(group)
    eventually(lambda: kernel.available_resources()["CPU"] == 6)


@kernel.remote
def where() -> str:
    return kernel.get_runtime_context().get_node_id()


@kernel.remote
def group_here(children: int = 0) -> Any:
    """Return the group that this runs in, and the answer of a child that says nothing of a strategy."""
    group = kernel.get_current_placement_group()
    return group and group.id, kernel.get(group_here.remote(children - 1)) if children else None


@kernel.remote(num_cpus=1)
class Member:
    def where(self) -> str:
        return kernel.get_runtime_context().get_node_id()

    def group(self) -> Any:
        return kernel.get_current_placement_group()

    def child(self) -> Any:
        return kernel.get(group_here.remote())

    def die(self) -> None:
        os._exit(1)


def nodes_of(group: kernel.PlacementGroup) -> list[str]:
    """Return where the bundles of a group lie, in order."""
    kernel.get(group.ready(), timeout=SECONDS)
    placed = kernel.placement_group_table(group)["bundles_to_node_id"]
    return [placed[index] for index in range(group.bundle_count)]


def free() -> float:
    return kernel.available_resources()["CPU"]


# -- where bundles lie ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "bundles", "nodes"),
    [
        ("PACK", 2, 1),
        ("PACK", 3, 2),
        ("STRICT_PACK", 2, 1),
        ("SPREAD", 3, 3),
        ("STRICT_SPREAD", 3, 3),
        ("SPREAD", 5, 3),
    ],
)
def test_bundles_lie_as_the_strategy_says_and_tasks_run_where_they_lie(
    make: Any, strategy: str, bundles: int, nodes: int
) -> None:
    group = make([{"CPU": 1}] * bundles, strategy)
    placed = nodes_of(group)
    assert len(set(placed)) == nodes
    assert free() == 6 - bundles, "what is reserved is not free"
    ran = [where.options(scheduling_strategy=Inside(group, index)).remote() for index in range(bundles)]
    assert kernel.get(ran, timeout=SECONDS) == placed
    anywhere = [where.options(scheduling_strategy=Inside(group)).remote() for _ in range(10)]
    assert set(kernel.get(anywhere, timeout=SECONDS)) <= set(placed)


@pytest.mark.usefixtures("patient_explanations")
@pytest.mark.parametrize(
    ("strategy", "bundles", "why"),
    [
        ("STRICT_SPREAD", [{"CPU": 1}] * 4, "STRICT_SPREAD"),
        ("STRICT_PACK", [{"CPU": 2}, {"CPU": 1}], "STRICT_PACK"),
        ("PACK", [{"GPU": 1}], "GPU"),
    ],
)
def test_what_never_fits_waits_and_says_why(make: Any, strategy: str, bundles: Any, why: str) -> None:
    group = make(bundles, strategy)
    assert group.wait(timeout_seconds=0.2) is False
    assert kernel.placement_group_table(group)["state"] == "PENDING" and free() == 6
    assert "is PENDING" in kernel.explain(group) and why in kernel.explain(group)
    assert kernel.explain(group.ready()) == kernel.explain(group)
    waiting = where.options(scheduling_strategy=Inside(group), num_cpus=0).remote()
    assert kernel.wait([waiting], timeout=0.2)[0] == []
    assert "where() waits for a worker" in kernel.explain(waiting)


def test_gangs_hold_all_or_nothing_and_never_each_half(make: Any) -> None:
    """Each wants four of six CPUs: holding half each, both would wait for ever."""
    first = make([{"CPU": 2}, {"CPU": 2}])
    assert first.wait(SECONDS)
    second = make([{"CPU": 2}, {"CPU": 2}], "STRICT_SPREAD")
    assert not second.wait(0.2) and free() == 2, "a gang that waits holds nothing"
    kernel.remove_placement_group(first)
    assert second.wait(SECONDS)


def test_many_gangs_at_once_all_get_their_turn(cluster: Cluster, eventually: Any) -> None:
    def meet(number: int) -> list[str]:
        group = kernel.placement_group([{"CPU": 1}] * 4, ("PACK", "SPREAD")[number % 2])
        kernel.get(group.ready(), timeout=SECONDS)
        members = [where.options(scheduling_strategy=Inside(group, index)).remote() for index in range(4)]
        ran = kernel.get(members, timeout=SECONDS)
        kernel.remove_placement_group(group)
        return ran

    @kernel.remote(num_cpus=0)
    def gang(number: int) -> list[str]:
        return meet(number)

    ran = kernel.get([gang.remote(number) for number in range(12)], timeout=2 * SECONDS)
    assert [len(places) for places in ran] == [4] * 12
    eventually(lambda: free() == 6)


# -- what runs in them ---------------------------------------------------------------------------------------------


def test_actors_live_in_bundles_and_restart_there(make: Any) -> None:
    group = make([{"CPU": 1}] * 3, "STRICT_SPREAD")
    placed = nodes_of(group)
    members = [Member.options(scheduling_strategy=Inside(group, index), max_restarts=1).remote() for index in range(3)]
    assert kernel.get([member.where.remote() for member in members], timeout=SECONDS) == placed
    assert kernel.get(members[0].group.remote()) == group
    assert kernel.get(members[0].group.remote()).bundle_specs == [{"CPU": 1.0}] * 3
    more = Member.options(scheduling_strategy=Inside(group)).remote()
    assert kernel.wait([more.where.remote()], timeout=0.2)[0] == [], "the bundles are full"
    kernel.kill(more)
    members[1].die.remote()
    assert kernel.get(members[1].where.options(max_task_retries=-1).remote(), timeout=SECONDS) == placed[1]


def test_children_are_captured_when_that_is_asked_for(make: Any) -> None:
    group = make([{"CPU": 1}] * 2)
    capturing = Inside(group, 0, placement_group_capture_child_tasks=True)
    here = (group.id, None)
    assert kernel.get(group_here.remote(1), timeout=SECONDS) == (None, (None, None))
    assert kernel.get(group_here.options(scheduling_strategy=Inside(group)).remote(1), timeout=SECONDS) == (
        group.id,
        (None, None),
    )
    nested = group_here.options(scheduling_strategy=capturing).remote(2)
    assert kernel.get(nested, timeout=SECONDS) == (group.id, (group.id, here))
    member = Member.options(scheduling_strategy=capturing).remote()
    assert kernel.get(member.child.remote(), timeout=SECONDS) == here
    kernel.kill(member)

    @kernel.remote
    def escape() -> Any:
        away = [Inside(None), "DEFAULT", "SPREAD"]
        return kernel.get([group_here.options(scheduling_strategy=each).remote() for each in away])

    @kernel.remote
    def with_an_actor() -> Any:
        return kernel.get(Member.remote().group.remote()) == kernel.get_current_placement_group()

    assert kernel.get(escape.options(scheduling_strategy=capturing).remote(), timeout=SECONDS) == [(None, None)] * 3
    assert kernel.get(with_an_actor.options(scheduling_strategy=capturing).remote(), timeout=SECONDS)


def test_what_no_bundle_can_hold_fails_at_once(make: Any) -> None:
    group = make([{"CPU": 1}, {"CPU": 2}], name="small")
    wide = where.options(num_cpus=2)
    assert kernel.get(wide.options(scheduling_strategy=Inside(group)).remote(), timeout=SECONDS) == nodes_of(group)[1]
    with pytest.raises(
        OptionError, match=f"where.. wants CPU: 2, and bundle 0 of placement group '{group.id}' holds only"
    ):
        wide.options(scheduling_strategy=Inside(group, 0)).remote()
    with pytest.raises(
        OptionError, match=rf"Member wants CPU: 3, and no bundle of placement group '{group.id}' holds that"
    ):
        Member.options(num_cpus=3, scheduling_strategy=Inside(group)).remote()


def test_what_no_bundle_can_hold_fails_later_where_its_bundles_are_not_known(make: Any) -> None:
    group = make([{"CPU": 1}, {"CPU": 2}], name="small")
    wide = where.options(num_cpus=2)
    inside = Inside(group, 0).to_mapping()
    with pytest.raises(
        InfeasibleError, match="where.. wants CPU: 2, and bundle 0 of placement group 'small' holds only"
    ):
        kernel.get(wide.options(scheduling_strategy=inside).remote(), timeout=SECONDS)
    member = Member.options(num_cpus=3, scheduling_strategy={**inside, "bundle": -1}).remote()
    with pytest.raises(
        InfeasibleError, match=r"Member wants CPU: 3, and no bundle of placement group 'small' holds that"
    ):
        kernel.get(member.where.remote(), timeout=SECONDS)


# -- names and lives -----------------------------------------------------------------------------------------------


def test_a_group_travels_and_is_found_by_name(make: Any) -> None:
    group = make([{"CPU": 1}, {"CPU": 0.5}], name="named")

    @kernel.remote(num_cpus=0)
    def look(given: kernel.PlacementGroup, ready: Any) -> Any:
        found = kernel.get_placement_group("named")
        return found == given == ready, found.bundle_specs, given.wait(20)

    expected = (True, [{"CPU": 1.0}, {"CPU": 0.5}], True)
    assert kernel.get(look.remote(group, group.ready()), timeout=SECONDS) == expected
    assert kernel.placement_group_table()[group.id] == kernel.placement_group_table(group)
    with pytest.raises(NameTakenError):
        kernel.placement_group([{"CPU": 1}], name="named")
    kernel.remove_placement_group(group)
    with pytest.raises(PlacementGroupNotFoundError, match="no placement group named 'named' is in namespace 'space'"):
        kernel.get_placement_group("named")


def test_a_near_name_is_offered(make: Any) -> None:
    make([{"CPU": 1}], name="trainers")
    with pytest.raises(PlacementGroupNotFoundError, match="did you mean 'trainers'"):
        kernel.get_placement_group("trainer")


PROGRAM = """
import sys
import kernel
kernel.init(address=sys.argv[1], namespace="space")
for name, lifetime in (("stays", "detached"), ("goes", None)):
    kernel.get(kernel.placement_group([{"CPU": 1}], name=name, lifetime=lifetime).ready(), timeout=120)
print(*(row["name"] for row in kernel.placement_group_table().values() if row["state"] == "CREATED"))
"""


def test_a_detached_group_outlives_its_program_and_others_do_not(cluster: Cluster, eventually: Any) -> None:
    command = [sys.executable, "-c", PROGRAM, cluster.head.directory]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    assert sorted(done.stdout.split()) == ["goes", "stays"]
    eventually(lambda: free() == 5)
    with pytest.raises(PlacementGroupNotFoundError):
        kernel.get_placement_group("goes")
    stays = kernel.get_placement_group("stays")
    assert kernel.placement_group_table(stays)["is_detached"]
    assert kernel.get(group_here.options(scheduling_strategy=Inside(stays)).remote(), timeout=SECONDS)[0] == stays.id
    kernel.remove_placement_group(stays)
    eventually(lambda: free() == 6)


def test_removal_ends_all_that_is_inside(make: Any, eventually: Any) -> None:
    group = make([{"CPU": 1}] * 2, name="short")

    @kernel.remote(num_cpus=0.5)
    def sleep() -> None:
        time.sleep(600)

    sleeping = [
        sleep.options(scheduling_strategy=Inside(group), max_retries=retries).remote()
        for retries in (0, 3)
        for _ in range(4)
    ]
    member = Member.options(num_cpus=0, scheduling_strategy=Inside(group), max_restarts=-1).remote()
    assert kernel.get(member.group.remote(), timeout=SECONDS) == group
    query = kernel.api.session.ensure_session().query
    eventually(lambda: sum(row["name"] == "sleep" for row in query("workers")) == 4)
    kernel.remove_placement_group(group)
    removed = "placement group 'short'.*: it was removed by kernel.remove_placement_group"
    for ref in sleeping:
        with pytest.raises(PlacementGroupRemovedError, match=removed):
            kernel.get(ref, timeout=SECONDS)
    with pytest.raises(ActorDiedError, match=removed):
        kernel.get(member.group.remote(), timeout=SECONDS)
    with pytest.raises(PlacementGroupRemovedError, match=removed):
        kernel.get(where.options(scheduling_strategy=Inside(group)).remote(), timeout=SECONDS)
    late = Member.options(scheduling_strategy=Inside(group)).remote()
    with pytest.raises(PlacementGroupRemovedError, match=removed):
        kernel.get(late.group.remote(), timeout=SECONDS)
    with pytest.raises(PlacementGroupRemovedError, match=removed):
        group.wait(1)
    assert kernel.placement_group_table(group)["state"] == "REMOVED"
    kernel.remove_placement_group(group)  # again: nothing to do
    eventually(lambda: free() == 6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (([],), "bundles must be a list of one or more"),
        (({"CPU": 1},), "bundles must be a list of one or more"),
        (([{"CPU": 0}],), "bundle 0 is {'CPU': 0}: it must reserve something"),
        (([{"CPU": 1}, {"CPU": -1}],), "bundle 1 is {'CPU': -1}: a resource quantity must be a finite number"),
        (([{1: 1}],), "bundle 0 must map names of resources to quantities"),
        (([{"CPU": 1}], "TIGHT"), "strategy must be one of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD, not 'TIGHT'"),
        (([{"CPU": 1}], "PACK", 3), "name must be a string, not 3"),
        (([{"CPU": 1}], "PACK", "", "forever"), "lifetime must be \"detached\" or None, not 'forever'"),
    ],
)
def test_what_is_malformed_is_refused_at_once(cluster: Cluster, arguments: Any, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        kernel.placement_group(*arguments)
    assert str(caught.value).startswith(text)
