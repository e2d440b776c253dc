"""The list of nodes in memory keeps the contract."""

from __future__ import annotations

import pytest

from kernel.conformance.node_provider import NodeProviderConformance
from kernel.defaults.provider import ManualNodeProvider
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import ProvidedNode

CONFIGURATION = {"kinds": {"small": {"CPU": 1}, "large": {"CPU": 8, "GPU": 1}}}


class TestManual(NodeProviderConformance):
    make_provider = staticmethod(lambda: ManualNodeProvider(CONFIGURATION))
    running_seconds = None


class TestManualFoundAgain(NodeProviderConformance):
    """The suite's restart test, with a provider that is its own cloud."""

    make_provider = staticmethod(lambda: ManualNodeProvider(CONFIGURATION))
    running_seconds = None
    reopen_provider = staticmethod(lambda provider: provider)


def test_without_kinds_it_says_how_to_start_a_node() -> None:
    provider = ManualNodeProvider()
    assert provider.kinds() == {} and provider.list() == []
    with pytest.raises(NodeProviderError, match="kinds it knows: none. Name one .* `kernel start --address`"):
        provider.create("small", 1, {})


def test_an_unknown_kind_hears_which_are_known() -> None:
    with pytest.raises(NodeProviderError, match="of kind 'medium'; kinds it knows: large, small"):
        ManualNodeProvider(CONFIGURATION).create("medium", 1, {})


def test_nodes_are_marked_by_hand() -> None:
    provider = ManualNodeProvider(CONFIGURATION)
    first, second = provider.create("large", 2, {"address": "head:1"})
    provider.mark(first, "running", address="10.0.0.1")
    provider.mark(second, "failed", problem="no such machine")
    assert provider.list() == [
        ProvidedNode(first, "large", "running", address="10.0.0.1"),
        ProvidedNode(second, "large", "failed", problem="no such machine"),
    ]
    assert provider.joins[first] == {"address": "head:1"}
    provider.terminate([first])
    with pytest.raises(NodeProviderError, match=f"has no node '{first}'"):
        provider.mark(first, "running")
