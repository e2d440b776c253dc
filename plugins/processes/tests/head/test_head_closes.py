"""What a head leaves behind: nothing when the session has ended, all that was written down when it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernel_metadata_sqlite.store import SqliteMetadataStore

from kernel.defaults.scheduler import LocalScheduler
from kernel_processes.head.head import Head, HeadConfig
from kernel_processes.head.nodes import NodeRecord
from kernel_spec.ids import NodeId
from kernel_spec.observers import LifecycleEvent

NODE = NodeId(b"the-node")


class Bench:
    """A head with its metadata in a file, and one node."""

    def __init__(self, directory: Path) -> None:
        self.events: list[LifecycleEvent] = []
        observer = SimpleNamespace(observe=self.events.extend)
        makers: dict[str, Any] = {
            "node_provider": None,
            "scheduler": LocalScheduler,
            "metadata_store": SqliteMetadataStore,
        }
        manager: Any = SimpleNamespace(
            all=lambda kind: [observer],
            choose=makers.__getitem__,
            make=lambda kind, *arguments: makers[kind](*arguments),
            make_many=lambda kind, names=(): [],
            label=lambda thing: "the observer of the plugin 'test'",
            options_of=lambda plugin: {},
            problems={},
        )
        reactor: Any = SimpleNamespace(clock=lambda: 1.0, call_later=lambda seconds, function: None)
        config = HeadConfig(str(directory), str(directory), False)
        self.head = Head(config, reactor, manager, lambda reason: None)

    def join(self) -> None:
        send: Callable[[Any], None] = lambda message: None
        self.head.add_node(NodeRecord(NODE, send, {"CPU": 1.0}, {}, ("GPU",), "host", "", "/nowhere", 1, 0.0))

    def told(self) -> list[tuple[str, str]]:
        return [(event.kind, event.state) for event in self.events]


def test_a_head_that_ends_before_its_session_leaves_what_the_next_one_needs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join()
    bench.head.metadata.put("kv:space", b"key", b"value")
    bench.head.close()
    assert bench.told() == [("node", "ALIVE")], "nobody is told that a node which goes on is dead"
    after = Bench(tmp_path)
    assert after.head.journal.nodes() == {NODE: ""}
    assert after.head.metadata.get("kv:space", b"key") == b"value"
    after.head.close()


def test_a_head_whose_session_has_ended_removes_what_it_wrote_down(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join()
    bench.head.end("it was asked to stop")
    bench.head.close()
    assert bench.told()[-1] == ("node", "DEAD")
    assert list(tmp_path.rglob("*.db*")) == []
    after = Bench(tmp_path)
    assert after.head.journal.nodes() == {}
    after.head.end("it was asked to stop")
    after.head.close()
