"""The conformance suite for node providers.

    from kernel_conformance.node_provider import NodeProviderConformance

    class TestMine(NodeProviderConformance):
        make_provider = staticmethod(lambda: MyProvider({"kinds": {"small": {"CPU": 1}}}))

`make_provider` returns a provider with no nodes and at least one kind. Run it with pytest. Machines are made and
ended, so give it a fake cloud, or a kind that costs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.labels import check_labels
from kernel_spec.providers import (
    INVALID,
    DescribesKinds,
    NodeProvider,
    ProvidedNode,
    TellsInterruptions,
    takes_token,
)

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
            try:
                ids = provider.create(kind, count, self.join)
            except NodeProviderError as error:
                assert error.code == INVALID, f"the code of {error!r} is {error.code!r}, not {INVALID!r}"
            else:
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

    def test_ids_are_values_of_labels(self) -> None:
        provider = type(self).make_provider()
        ids = self._create(provider, 1)
        provider.terminate(ids)
        check_labels({"id": ids[0]})

    # -- what a provider may have besides --------------------------------------------------------------------------

    def test_a_repeated_token_makes_no_second_node(self) -> None:
        provider = type(self).make_provider()
        if not takes_token(provider):
            return
        create: Callable[..., Sequence[str]] = provider.create
        first = list(create(self._kind(provider), 2, self.join, token="first"))
        try:
            again = list(create(self._kind(provider), 2, self.join, token="first"))
            assert sorted(again) == sorted(first), f"the token's call made {first}, and repeated {again}"
            assert set(self._nodes(provider)) == set(first)
            other = list(create(self._kind(provider), 1, self.join, token="second"))
            assert set(other).isdisjoint(first), "another token is another call"
            first += other
        finally:
            provider.terminate(first)

    def test_kinds_are_described(self) -> None:
        provider = type(self).make_provider()
        if not isinstance(provider, DescribesKinds):
            return
        for kind in provider.kinds():
            details = provider.describe(kind)
            assert details.price is None or details.price >= 0, f"{kind!r} costs {details.price}"
            assert details.boot_seconds > 0, f"{kind!r} takes {details.boot_seconds} s to join"
            check_labels(details.labels)
        with suppress(NodeProviderError):
            raise AssertionError(f"an unknown kind is described as {provider.describe('no such kind')}")

    def test_without_an_announcement_no_node_is_interrupted(self) -> None:
        provider = type(self).make_provider()
        if isinstance(provider, TellsInterruptions):
            assert list(provider.events()) == []

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
