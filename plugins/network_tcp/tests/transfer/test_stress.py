"""Many objects between many nodes whose stores are too small, with cuts and changes of mind: every byte is right."""

from __future__ import annotations

import random
import threading
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

import pytest
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.sockets import shut
from kernel_store_plasma import PlasmaStore

from kernel.testing.faults import wait_until
from kernel.testing.transfer_node import CLIENT, TransferNode
from kernel_processes.node import store_patience
from kernel_spec.ids import ObjectId
from kernel_spec.store import Delete

CHUNK = 1 << 14
ROOM = 20 * CHUNK
LIMITS = TransferLimits(
    chunk_bytes=CHUNK,
    bytes_in_flight=ROOM // 2,
    wait_seconds=0.3,
    stall_seconds=1.0,
    retry_seconds=0.01,
    longest_retry_seconds=0.1,
    failures_per_source=10_000,
    idle_seconds=3.0,
    patience_seconds=600.0,
)
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
NODES, OBJECTS, PULLS = 5, 24, 150


def name(index: int) -> ObjectId:
    return ObjectId(b"object" + index.to_bytes(14, "big"))


@pytest.mark.parametrize("seed", [1, 2])
def test_every_byte_is_right_whatever_happens(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_patience, "PATIENCE_SECONDS", SECONDS)
    chance = random.Random(seed)
    with ExitStack() as stack:
        nodes = [stack.enter_context(TransferNode(PlasmaStore(), ROOM, str(tmp_path), LIMITS)) for _ in range(NODES)]
        data = [chance.randbytes(chance.choice([10, CHUNK, 3 * CHUNK + 5, 8 * CHUNK])) for _ in range(OBJECTS)]
        homes = [chance.choice(nodes) for _ in range(OBJECTS)]
        for index in range(OBJECTS):
            homes[index].put(name(index), data[index])
        pulls: list[tuple[TransferNode, int, Future[None]]] = []
        for turn in range(PULLS):
            node, index = chance.choice(nodes), chance.randrange(OBJECTS)
            others = [homes[index], *chance.sample(nodes, chance.randint(0, 2))]
            sources = [other.address for other in others if other is not node]
            pull = node.pull(name(index), len(data[index]), sources, urgent=chance.random() < 0.5)
            if chance.random() < 0.2 and homes[index] is not node:
                node.cancel(pull)
            else:
                pulls.append((node, index, pull))
            if turn % 5 == 0:
                cut_one(chance, nodes)
            if chance.random() < 0.1:  # a copy that is not needed goes; the first one stays
                other = chance.choice(nodes)
                if other is not homes[index]:
                    other.say(Delete([name(index)]))
            threading.Event().wait(0.005)
        for node, _, pull in pulls:
            pull.result(SECONDS)
            node.validate()
        for index in range(OBJECTS):
            for node in nodes:
                if any(row.object == name(index) for row in node.call(node.server.objects)):
                    assert node.read(name(index)) == data[index], f"object {index} is wrong at {node.address}"
        for node in nodes:
            wait_until(lambda node=node: idle(node), SECONDS, "the end of all pulls and pins")  # type: ignore[misc]
            node.validate()


def cut_one(chance: random.Random, nodes: list[TransferNode]) -> None:
    sockets = [sock for node in nodes for sock in node.sockets if sock.fileno() >= 0]
    if sockets:
        shut(chance.choice(sockets))


def idle(node: TransferNode) -> bool:
    rows = node.call(node.server.objects)
    return not node.transfer.pulls and not any(CLIENT in row.pins or row.state == "writing" for row in rows)
