"""The provider of nodes on this machine, against the suite of providers."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from kernel_autoscaler.loopback import LoopbackProvider

from kernel.conformance.node_provider import NodeProviderConformance
from kernel.testing.faults import wait_until


class TestLoopback(NodeProviderConformance):
    """Nodes of which none can join: the head that they are told of is not there."""

    make_provider = staticmethod(lambda: LoopbackProvider({"session": tempfile.mkdtemp()}))
    running_seconds = None

    @staticmethod
    def reopen_provider(provider: Any) -> LoopbackProvider:
        return LoopbackProvider({"session": str(provider._root.parent)})


def test_a_list_stands_nodes_that_come_and_go_meanwhile(tmp_path: Path) -> None:
    provider = LoopbackProvider({"session": str(tmp_path)})
    for name, said in (("coming", {"process": 0}), ("going", {"process": 2**22 + 1})):
        directory = tmp_path / "loopback" / name
        directory.mkdir(parents=True)
        (directory / "node.json").write_text(json.dumps({"kind": "small", "token": "", "ended": False, **said}))
    (coming,) = provider.list()
    assert (coming.id, coming.state) == ("coming", "starting"), "the other has gone, with its log"
    provider.terminate(["coming"])
    assert provider.list() == []


def test_a_node_leaves_nothing_behind(tmp_path: Path) -> None:
    provider = LoopbackProvider({"session": str(tmp_path), "directory": str(tmp_path)})
    (id,) = provider.create("small", 1, NodeProviderConformance.join)
    wait_until(lambda: [node.state for node in provider.list()] == ["failed"], 60.0, "the node to find no head")
    (node,) = provider.list()
    assert "KERNEL_TOKEN holds is no token" in node.problem and not list(tmp_path.glob("kernel-loopback-*/*/session*"))
    provider.terminate([id])
    assert provider.list() == []
