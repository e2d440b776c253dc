"""Where an object is fetched: from nodes, and from a remote driver only where no node has it."""

from __future__ import annotations

from kernel_processes.node.object_exchange import sources

OWN, NEAR, FAR = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1~0123456789abcdef"


def test_nodes_come_first_and_what_is_behind_the_relay_after_all_of_them() -> None:
    assert sources([FAR, NEAR, OWN], OWN) == [[NEAR], [FAR]]
    assert sources([FAR], OWN) == [[FAR]]
    assert sources([NEAR, "10.0.0.3:1"], OWN) == [[NEAR, "10.0.0.3:1"]]
    assert sources([OWN], OWN) == sources([], OWN) == []
    assert sources([FAR, NEAR], FAR) == [[NEAR]]
