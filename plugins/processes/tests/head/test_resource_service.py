"""Resources as the scheduler sees them, and the changes that processes ask for."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.logs import Logger
from kernel_engine.messages.named_messages import packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.message_dispatcher import MessageDispatcher
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.head.resource_service import ResourceService
from kernel_processes.protocol import head_messages
from kernel_spec.errors import OptionError
from kernel_spec.ids import JobId, NodeId, ProcessId
from kernel_spec.resources import amounts
from kernel_spec.scheduling import ResourceChanged, SchedulerSnapshot

FIRST, SECOND, CLIENT = NodeId(b"node---1"), NodeId(b"node---2"), NodeId(b"client-1")


class Stage:
    """Two nodes and a remote driver, and what they and the scheduler are told."""

    def __init__(self) -> None:
        self.told: list[tuple[NodeId, Any]] = []
        self.received: list[Any] = []
        total = {FIRST: amounts({"CPU": 4, "GPU": 1}), SECOND: amounts({"CPU": 2})}
        free = {FIRST: amounts({"CPU": 1}), SECOND: amounts({"CPU": 0.5})}
        snapshot = SchedulerSnapshot(total, free, [], {})
        leases: Any = SimpleNamespace(scheduler=SimpleNamespace(snapshot=lambda: snapshot), handle=self.received.append)
        self.cluster = ClusterTable(FIRST)
        for id in (FIRST, SECOND, CLIENT):
            self.cluster.nodes[id] = self.node(id)
        self.methods = MessageDispatcher(self.cluster, Logger("test")).methods
        dispatcher: Any = SimpleNamespace(methods=self.methods)
        ResourceService(dispatcher, self.cluster, leases)

    def node(self, id: NodeId) -> NodeRecord:
        def send(message: Any) -> None:
            self.told.append((id, message))

        return NodeRecord(id, send, {"CPU": 4.0}, {}, (), "host", "", "", 1, 0.0, client=id == CLIENT)

    def set(self, *arguments: Any, by: NodeId = FIRST) -> None:
        node = self.cluster.nodes[by]
        self.methods["set_resource"](
            ProcessRecord(ProcessId(b"driver"), "driver", 1, "", JobId(b"job"), "", {}, node), *arguments
        )


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_totals_are_summed_and_what_is_used_up_is_shown_as_zero(stage: Stage) -> None:
    total, free = (pickle.loads(stage.methods[name](None)) for name in ("cluster_resources", "available_resources"))
    assert total == {"CPU": 6.0, "GPU": 1.0} and free == {"CPU": 1.5, "GPU": 0.0}


def test_a_change_is_told_to_the_node_and_to_the_scheduler(stage: Stage) -> None:
    stage.set("desk", 2.0)
    stage.set("desk", 3.0, SECOND.hex())
    stage.set("desk", 0.0)
    changes = [(FIRST, 2.0), (SECOND, 3.0), (FIRST, 0.0)]
    assert stage.received == [ResourceChanged(node, "desk", quantity) for node, quantity in changes]
    assert stage.told == [
        (node, packed(head_messages.SetResource(name="desk", quantity=quantity))) for node, quantity in changes
    ]
    assert stage.cluster.nodes[FIRST].total == {"CPU": 4.0}
    assert stage.cluster.nodes[SECOND].total == {"CPU": 4.0, "desk": 3.0}


@pytest.mark.parametrize(
    ("arguments", "by", "said"),
    [
        (("desk", -1.0), FIRST, "the capacity of resource 'desk' must be zero or more, not -1.0"),
        (("CPU", 8.0), FIRST, "CPU is fixed when the node starts; only custom resources can be set at run time"),
        (("desk", 1.0), CLIENT, "a remote driver has no node of its own whose resources it could set"),
        (("desk", 1.0, "ff"), FIRST, "there is no living node 'ff'; the living nodes are"),
    ],
)
def test_what_can_t_be_set_is_refused_and_changes_nothing(
    stage: Stage, arguments: tuple[Any, ...], by: NodeId, said: str
) -> None:
    with pytest.raises(OptionError) as raised:
        stage.set(*arguments, by=by)
    assert str(raised.value).startswith(said) and (stage.told, stage.received) == ([], [])
