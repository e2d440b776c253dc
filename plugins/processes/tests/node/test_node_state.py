"""What a node tells the head of itself, and what changes that."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.node_state import NodeState
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.agent_config import AgentConfig


class Bench:
    """A node that hears its head at times that a test says."""

    def __init__(self, devices: tuple[str, ...] = (), **settings: Any) -> None:
        self.now = 100.0
        self.head = HeadClient(None)  # type: ignore[arg-type]
        config = AgentConfig("/session", b"token", b"node-id1", ephemeral=True, **settings)
        self.state = NodeState(self.head, config, {"CPU": 2.0, "disk": 1.0}, devices, "here:1", lambda: self.now)


def test_a_node_describes_itself() -> None:
    description = Bench(("TPU",), labels={"zone": "a"}).state.description()
    labels = description.pop("labels")
    assert labels["zone"] == "a"
    assert description.pop("host") and description.pop("version")
    assert description == {
        "total": {"CPU": 2.0, "disk": 1.0},
        "devices": ("TPU",),
        "address": "here:1",
        "directory": "/session",
        "pid": os.getpid(),
        "client": False,
    }


def test_a_node_without_devices_names_gpus_and_that_of_a_remote_driver_is_a_client() -> None:
    description = Bench(relay="head:1").state.description()
    assert (description["devices"], description["client"]) == (("GPU",), True)


@pytest.mark.parametrize(("quantity", "total"), [(3.0, {"CPU": 2.0, "disk": 3.0}), (0.0, {"CPU": 2.0})])
def test_a_resource_that_is_set_is_part_of_the_next_description(quantity: float, total: dict[str, float]) -> None:
    bench = Bench()
    bench.head.handle(packed(head_messages.SetResource(name="disk", quantity=quantity)))
    assert bench.state.description()["total"] == total


def test_a_node_that_is_drained_knows_when_it_leaves() -> None:
    bench = Bench()
    assert not bench.state.leaving and bench.state.leaves_in() is None
    bench.head.handle(packed(head_messages.DrainNode(seconds=10.0)))
    bench.now += 4.0
    assert bench.state.leaving and bench.state.leaves_in() == 6.0
    bench.now += 7.0
    assert bench.state.leaves_in() == 0.0


def test_a_node_may_be_drained_without_a_deadline() -> None:
    bench = Bench()
    bench.head.handle(packed(head_messages.DrainNode(seconds=None)))
    assert bench.state.leaving and bench.state.leaves_in() is None


def test_a_node_whose_drain_is_cancelled_stays() -> None:
    bench = Bench()
    bench.head.handle(packed(head_messages.DrainNode(seconds=10.0)))
    bench.head.handle(packed(head_messages.CancelDrain()))
    assert not bench.state.leaving and bench.state.leaves_in() is None
