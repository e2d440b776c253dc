"""The conformance suite for node providers.

    from kernel_conformance.node_provider import NodeProviderConformance

    class TestMine(NodeProviderConformance):
        make_provider = staticmethod(lambda: MyProvider({"kinds": {"small": {"CPU": 1}}}))

`make_provider` returns a provider with no nodes and at least one kind. Run it with pytest. Machines are made and
ended, so give it a fake cloud, or a kind that costs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import NodeProvider, ProvidedNode

STATES = ("starting", "running", "stopping", "failed")


class NodeProviderConformance:
    """Every node provider's tests."""

    make_provider: Callable[[], NodeProvider]

    reopen_provider: Callable[[NodeProvider], NodeProvider] | None = None
    """Return a provider as after a restart of the head: made anew, over the same cloud. None if nothing is kept."""
    join: Mapping[str, Any] = {"address": "127.0.0.1:1", "token": "token"}
    """What new nodes are told for joining."""
    create_seconds = 60.0
    """Seconds that `create` may take: it starts machines and does not wait for them."""
    running_seconds: float | None = 300.0
    """Seconds until a new node is running; None where none ever is, as in a list kept by hand."""
    gone_seconds = 120.0
    """Seconds for which a terminated node may still be listed as stopping."""

    def test_is_a_node_provider_with_a_name(self) -> None:
        provider = type(self).make_provider()
        assert isinstance(provider, NodeProvider), f"{type(provider).__name__} lacks a method of NodeProvider"
        assert isinstance(provider.name, str) and provider.name, "a node provider needs a name"

    def test_says_what_it_can_make(self) -> None:
        kinds = type(self).make_provider().kinds()
        assert kinds, "these tests need at least one kind of node"
        for kind, resources in kinds.items():
            assert kind and all(quantity > 0 for quantity in resources.values()), f"{kind!r} brings {resources}"

    def test_a_new_cluster_has_no_nodes(self) -> None:
        assert list(type(self).make_provider().list()) == []

    def test_what_was_created_is_listed_at_once(self) -> None:
        provider = type(self).make_provider()
        start = time.monotonic()
        ids = self._create(provider, 2)
        seconds = time.monotonic() - start
        try:
            assert seconds < self.create_seconds, f"create took {seconds:.1f} s: it should not wait for the machines"
            assert len(set(ids)) == 2, f"two nodes were asked for, the ids are {list(ids)}"
            nodes = self._nodes(provider)
            assert set(nodes) == set(ids), f"created {list(ids)}, listed {sorted(nodes)}"
            assert {node.kind for node in nodes.values()} == {self._kind(provider)}
        finally:
            provider.terminate(ids)

    def test_what_was_created_runs_at_last(self) -> None:
        if self.running_seconds is None:
            return
        provider = type(self).make_provider()
        ids = self._create(provider, 1)
        deadline = time.monotonic() + self.running_seconds
        try:
            while [node.state for node in self._nodes(provider).values()] != ["running"]:
                nodes = list(provider.list())
                failed = any(node.state == "failed" for node in nodes)
                late = time.monotonic() > deadline
                assert not failed and not late, f"no machine was made within {self.running_seconds} s: {nodes}"
                time.sleep(0.05)
        finally:
            provider.terminate(ids)

    def test_new_ids_are_never_those_of_nodes_that_are_gone(self) -> None:
        provider = type(self).make_provider()
        first = self._create(provider, 1)
        provider.terminate(first)
        second = self._create(provider, 1)
        provider.terminate(second)
        assert set(first).isdisjoint(second), "a new node has the id of one that was terminated"

    def test_terminated_nodes_go_and_others_stay(self) -> None:
        provider = type(self).make_provider()
        ids = self._create(provider, 3)
        provider.terminate(ids[:1])
        living = {id for id, node in self._nodes(provider).items() if node.state != "stopping"}
        assert living == set(ids[1:]), f"terminated {ids[0]} of {list(ids)}, living are {sorted(living)}"
        provider.terminate(ids)
        deadline = time.monotonic() + self.gone_seconds
        while self._nodes(provider):
            assert time.monotonic() < deadline, f"still listed after {self.gone_seconds} s: {self._nodes(provider)}"
            time.sleep(0.05)

    def test_unknown_ids_are_ignored(self) -> None:
        provider = type(self).make_provider()
        ids = self._create(provider, 1)
        provider.terminate(["no such node"])
        provider.terminate([])
        assert set(self._nodes(provider)) == set(ids)
        provider.terminate([*ids, "no such node", *ids])

    def test_what_can_not_be_made_is_refused_and_leaves_nothing(self) -> None:
        provider = type(self).make_provider()
        for kind, count in (("no such kind", 1), (self._kind(provider), 0), (self._kind(provider), -1)):
            with suppress(NodeProviderError):
                ids = provider.create(kind, count, self.join)
                raise AssertionError(f"create({kind!r}, {count}) gave {list(ids)} instead of NodeProviderError")
        assert not self._nodes(provider), "a refused request left nodes behind"

    def test_a_listed_node_can_not_be_changed_from_outside(self) -> None:
        provider = type(self).make_provider()
        ids = self._create(provider, 1)
        listed = provider.list()
        with suppress(AttributeError):  # a tuple has no clear
            listed.clear()  # type: ignore[attr-defined]
        assert set(self._nodes(provider)) == set(ids), "list gave away its own list"
        provider.terminate(ids)

    def test_nodes_are_found_again_after_a_restart(self) -> None:
        if self.reopen_provider is None:
            return
        provider = type(self).make_provider()
        ids = self._create(provider, 2)
        again = type(self).reopen_provider(provider)  # type: ignore[misc]
        found = self._nodes(again)
        again.terminate(ids)
        assert set(found) == set(ids), f"created {list(ids)}, after a restart there are {sorted(found)}"

    def _create(self, provider: NodeProvider, count: int) -> list[str]:
        return list(provider.create(self._kind(provider), count, self.join))

    def _kind(self, provider: NodeProvider) -> str:
        return next(iter(provider.kinds()))

    def _nodes(self, provider: NodeProvider) -> dict[str, ProvidedNode]:
        nodes = list(provider.list())
        for node in nodes:
            assert node.state in STATES, f"node {node.id} is {node.state!r}, not one of {STATES}"
        assert len({node.id for node in nodes}) == len(nodes), f"a node is listed twice: {nodes}"
        return {node.id: node for node in nodes}
