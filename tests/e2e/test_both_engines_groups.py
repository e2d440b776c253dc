"""Placement groups behave the same in local mode and over real processes, where one node is all there is."""

from __future__ import annotations

from typing import Any

import pytest

import kernel
from kernel import exceptions

pytestmark = pytest.mark.usefixtures("engine")
Inside = kernel.PlacementGroupSchedulingStrategy
SECONDS = 120.0


@pytest.fixture
def make(eventually: Any) -> Any:
    """Make placement groups that end with the test."""
    made = []

    def make(*arguments: Any, **options: Any) -> kernel.PlacementGroup:
        made.append(kernel.placement_group(*arguments, **options))
        return made[-1]

    yield make
    for group in made:
        kernel.remove_placement_group(group)
    eventually(lambda: kernel.available_resources()["CPU"] == 4 and kernel.available_resources()["GPU"] == 2)


@kernel.remote
def group_here(children: int = 0) -> Any:
    group = kernel.get_current_placement_group()
    return group and group.id, kernel.get(group_here.remote(children - 1)) if children else None


@kernel.remote(num_cpus=1)
class Member:
    def group(self) -> Any:
        return kernel.get_current_placement_group()

    def child(self) -> Any:
        return kernel.get(group_here.remote())


def test_a_group_that_fits_is_ready_and_holds_its_bundles(make: Any) -> None:
    group = make([{"CPU": 1}, {"CPU": 1, "GPU": 1}], name="gang")
    assert kernel.get(group.ready(), timeout=SECONDS) == group and group.wait(SECONDS)
    assert (group.bundle_count, group.bundle_specs) == (2, [{"CPU": 1}, {"CPU": 1, "GPU": 1}])
    assert kernel.available_resources()["CPU"] == 2 and kernel.available_resources()["GPU"] == 1
    row = kernel.placement_group_table(group)
    here = kernel.get_runtime_context().get_node_id()
    assert (row["name"], row["state"], row["strategy"], row["is_detached"]) == ("gang", "CREATED", "PACK", False)
    assert row["bundles_to_node_id"] == {0: here, 1: here} and kernel.placement_group_table()[group.id] == row
    assert kernel.get_placement_group("gang") == group
    assert kernel.explain(group).startswith("placement group 'gang' is placed")
    assert kernel.explain(group.ready()).startswith(("placement group 'gang' is placed", "object "))


def test_tasks_take_from_the_bundle_they_name(make: Any) -> None:
    group = make([{"CPU": 1}, {"CPU": 1, "GPU": 1}])

    @kernel.remote(num_gpus=1)
    def devices() -> Any:
        return kernel.get_gpu_ids(), kernel.get_current_placement_group() == group

    ids, inside = kernel.get(devices.options(scheduling_strategy=Inside(group)).remote(), timeout=SECONDS)
    assert len(ids) == 1 and inside
    small = devices.options(scheduling_strategy=Inside(group, 0))
    with pytest.raises(exceptions.OptionError, match=r"devices\(\) wants CPU: 1, GPU: 1, and bundle 0 of placement"):
        small.remote()
    later = devices.options(scheduling_strategy=Inside(group, 0).to_mapping())
    with pytest.raises(exceptions.InfeasibleError, match=r"devices\(\) wants CPU: 1, GPU: 1, and bundle 0 of"):
        kernel.get(later.remote(), timeout=SECONDS)
    assert kernel.get(group_here.remote(), timeout=SECONDS) == (None, None)


@pytest.mark.usefixtures("patient_explanations")
def test_what_never_fits_is_not_ready(make: Any) -> None:
    group = make([{"CPU": 1}] * 2, "STRICT_SPREAD", name="wide")
    assert not group.wait(0.1)
    assert "placement group 'wide'" in kernel.explain(group) and "STRICT_SPREAD wants a node of its own" in (
        kernel.explain(group.ready())
    )
    with pytest.raises(exceptions.GetTimeoutError):
        kernel.get(group.ready(), timeout=0.1)


def test_a_group_that_waits_is_ready_when_others_have_gone(make: Any) -> None:
    first, second = make([{"CPU": 3}]), make([{"CPU": 2}, {"CPU": 1}])
    ready = second.ready()
    assert first.wait(SECONDS) and not second.wait(0.1)
    assert kernel.wait([ready], timeout=0)[0] == []
    kernel.remove_placement_group(first)
    assert kernel.get(ready, timeout=SECONDS) == second


def test_children_are_captured_when_that_is_asked_for(make: Any) -> None:
    group = make([{"CPU": 1}] * 2)
    plain, capturing = Inside(group), Inside(group, 0, placement_group_capture_child_tasks=True)
    outside = (None, None)
    assert kernel.get(group_here.options(scheduling_strategy=plain).remote(1), timeout=SECONDS) == (group.id, outside)
    asks = kernel.remote(lambda: kernel.get_runtime_context().should_capture_child_tasks_in_placement_group)
    answers = [asks.options(scheduling_strategy=where).remote() for where in (plain, capturing, "DEFAULT")]
    assert kernel.get(answers, timeout=SECONDS) == [False, True, False]
    deep = group_here.options(scheduling_strategy=capturing).remote(2)
    assert kernel.get(deep, timeout=SECONDS) == (group.id, (group.id, (group.id, None)))
    member = Member.options(scheduling_strategy=capturing).remote()
    assert kernel.get(member.group.remote(), timeout=SECONDS) == group
    assert kernel.get(member.child.remote(), timeout=SECONDS) == (group.id, None)
    kernel.kill(member)

    @kernel.remote(scheduling_strategy=capturing)
    def escape() -> Any:
        return kernel.get(group_here.options(scheduling_strategy=Inside(None)).remote())

    assert kernel.get(escape.remote(), timeout=SECONDS) == outside


def test_removal_ends_what_is_inside_and_frees_it(make: Any, eventually: Any) -> None:
    group = make([{"CPU": 1}], name="short")
    member = Member.options(scheduling_strategy=Inside(group)).remote()
    assert kernel.get(member.group.remote(), timeout=SECONDS) == group
    waiting = group_here.options(scheduling_strategy=Inside(group)).remote()
    assert kernel.wait([waiting], timeout=0.1)[0] == [], "the bundle is full"
    kernel.remove_placement_group(group)
    removed = "placement group 'short'.*: it was removed by kernel.remove_placement_group"
    with pytest.raises(exceptions.PlacementGroupRemovedError, match=removed):
        kernel.get(waiting, timeout=SECONDS)
    with pytest.raises(exceptions.ActorDiedError, match=removed):
        kernel.get(member.group.remote(), timeout=SECONDS)
    late = Member.options(scheduling_strategy=Inside(group)).remote()
    for ref in (late.group.remote(), group.ready(), group_here.options(scheduling_strategy=Inside(group)).remote()):
        with pytest.raises(exceptions.PlacementGroupRemovedError, match=removed):
            kernel.get(ref, timeout=SECONDS)
    assert kernel.placement_group_table(group)["state"] == "REMOVED"
    assert kernel.explain(group) == "placement group 'short' is gone: it was removed by kernel.remove_placement_group()"
    with pytest.raises(exceptions.PlacementGroupNotFoundError, match="no placement group named 'short'"):
        kernel.get_placement_group("short")
    eventually(lambda: kernel.available_resources()["CPU"] == 4)


def test_names_are_taken_once(make: Any) -> None:
    make([{"CPU": 1}], name="trainers")
    with pytest.raises(exceptions.NameTakenError, match="a placement group named 'trainers' lives in namespace"):
        kernel.placement_group([{"CPU": 1}], name="trainers")
    with pytest.raises(exceptions.PlacementGroupNotFoundError, match="did you mean 'trainers'"):
        kernel.get_placement_group("trainer")
    assert kernel.get_current_placement_group() is None


def test_bundles_may_want_labels(make: Any) -> None:
    here = kernel.get_runtime_context().get_node_id()
    assert kernel.nodes()[0]["Labels"]["kernel/node-id"] == here
    at_home = make([{"CPU": 1}, {"CPU": 1}], bundle_label_selector=[{"kernel/node-id": here}, {}])
    assert at_home.wait(SECONDS) and kernel.get(group_here.options(scheduling_strategy=Inside(at_home)).remote())
    nowhere = make([{"CPU": 1}, {"CPU": 1}], bundle_label_selector=[{}, {"kernel/node-id": f"!{here}"}])
    assert not nowhere.wait(0.2)
    assert "labels that" in kernel.explain(nowhere)


@pytest.mark.parametrize(
    ("selectors", "said"),
    [
        ([], "a label selector for each of the 1 bundles"),
        ([{}, {}], "a label selector for each of the 1 bundles"),
        ("x", "bundle_label_selector must be a list"),
        ([1], "a label selector is a mapping of label to condition"),
        ([{"zone": "in("}], "bundle_label_selector: the condition on label 'zone' must be"),
    ],
)
def test_label_selectors_of_bundles_that_can_not_be_are_refused(selectors: Any, said: str) -> None:
    with pytest.raises(exceptions.OptionError, match=said):
        kernel.placement_group([{"CPU": 1}], bundle_label_selector=selectors)


def test_a_label_selector_is_met_or_says_why() -> None:
    where = kernel.remote(lambda: kernel.get_runtime_context().get_node_id())
    here = kernel.get_runtime_context().get_node_id()
    assert kernel.get(where.options(label_selector={"kernel/node-id": here}).remote(), timeout=SECONDS) == here
    wrong = {"label_selector": {"zone": "z"}}
    fallback = [wrong, {"label_selector": {"zone": "!z"}}]
    assert kernel.get(where.options(**wrong, fallback_strategy=fallback).remote(), timeout=SECONDS) == here


@pytest.mark.usefixtures("patient_explanations")
def test_strategies_that_the_one_node_does_not_meet() -> None:
    here = kernel.get_runtime_context().get_node_id()
    where = kernel.remote(lambda: kernel.get_runtime_context().get_node_id())
    affinity = kernel.NodeAffinitySchedulingStrategy
    for strategy in (
        affinity(here, False),
        affinity("00" * 8, True),
        kernel.NodeLabelSchedulingStrategy(soft={"a": "b"}),
    ):
        assert kernel.get(where.options(scheduling_strategy=strategy).remote(), timeout=SECONDS) == here
    with pytest.raises(exceptions.InfeasibleError, match="may run only on node 0000000000000000"):
        kernel.get(where.options(scheduling_strategy=affinity("00" * 8, False)).remote())
    labels = kernel.NodeLabelSchedulingStrategy(hard={"zone": "z"})
    ref = where.options(scheduling_strategy=labels).remote()
    assert "zone in (z)" in kernel.explain(ref)
    kernel.cancel(ref)
