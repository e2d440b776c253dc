"""Requests that nothing could ever serve are refused at once, with an error that says why."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_processes.head.feasibility import why_infeasible
from kernel_processes.head.groups import GroupRecord, GroupTable
from kernel_spec.errors import InfeasibleError, KernelError, OptionError, PlacementGroupRemovedError
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import amounts
from kernel_spec.scheduling import GroupRequest, LeaseRequest

ALIVE, DEAD = NodeId(b"a" * 8), NodeId(b"d" * 8)
GROUP = GroupId(b"g" * 8)


def why(wanted: dict[str, float] | None = None, for_actor: bool = False, **fields: Any) -> KernelError | None:
    table = GroupTable()
    for id, name in ((GROUP, "gang"), (GroupId(b"r" * 8), "old")):
        bundles = (amounts({"CPU": 1}), amounts({"CPU": 2, "GPU": 1}))
        table.create(GroupRecord(GroupRequest(id, JobId(b"job"), bundles, name=name), "space", JobId(b"job")))
    table.remove(GroupId(b"r" * 8), "it was removed")
    name, wishes = "f" if not for_actor else "Actor 'x'", amounts(wanted or {"CPU": 1})
    request = LeaseRequest(LeaseId(b"l"), JobId(b"job"), ProcessId(b"p"), wishes, name, for_actor=for_actor, **fields)
    return why_infeasible(request, table.groups, lambda node: "that is gone: no power" if node == DEAD else "")


def affinity(node: NodeId, soft: bool) -> dict[str, Any]:
    return {"type": "node_affinity", "node": node.hex(), "soft": soft}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"strategy": "SPREAD"},
        {"strategy": affinity(ALIVE, False)},
        {"strategy": affinity(DEAD, True)},
        {"strategy": {"type": "node_labels", "hard": {"zone": "nowhere"}}},
        {"group": GROUP},
        {"group": GROUP, "bundle": 1, "wanted": {"CPU": 2, "GPU": 0.5}},
        {"group": GROUP, "wanted": {"CPU": 2}},
    ],
)
def test_what_may_be_served_yet_is_not_refused(fields: dict[str, Any]) -> None:
    assert why(**fields) is None


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        (
            {"strategy": affinity(DEAD, False)},
            InfeasibleError,
            f"f() may run only on node {DEAD.hex()}, and that is gone: no power; choose one of kernel.nodes(), or let "
            "others do with soft=True",
        ),
        ({"strategy": {"type": "node_labels", "hard": {"zone": 1}}}, OptionError, "f() can't be placed: label 'zone'"),
        (
            {"group": GroupId(b"u" * 8)},
            PlacementGroupRemovedError,
            f"f() can't run in placement group '{(b'u' * 8).hex()}', which is not known (any more)",
        ),
        (
            {"group": GroupId(b"r" * 8)},
            PlacementGroupRemovedError,
            "f() can't run in placement group 'old': it was rem",
        ),
        (
            {"group": GROUP, "bundle": 2, "for_actor": True},
            OptionError,
            "Actor 'x' can't run in bundle 2 of placement group 'gang', which has bundles 0 to 1",
        ),
        (
            {"group": GROUP, "wanted": {"CPU": 3}},
            InfeasibleError,
            "f() wants CPU: 3, and no bundle of placement group 'gang' holds that much: CPU: 1; CPU: 2, GPU: 1. Ask "
            "for less, or for larger bundles",
        ),
        (
            {"group": GROUP, "bundle": 0, "wanted": {"CPU": 2}},
            InfeasibleError,
            "f() wants CPU: 2, and bundle 0 of placement group 'gang' holds only CPU: 1. Ask for less",
        ),
    ],
)
def test_what_is_hopeless_says_why(fields: dict[str, Any], kind: type[KernelError], text: str) -> None:
    error = why(**fields)
    assert type(error) is kind and str(error).startswith(text)
