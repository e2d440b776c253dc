"""The provider of nodes on this machine, against the suite of providers."""

from __future__ import annotations

import tempfile
from typing import Any

from kernel_autoscaler.loopback import LoopbackProvider

from kernel.conformance.node_provider import NodeProviderConformance


class TestLoopback(NodeProviderConformance):
    """Nodes of which none can join: the head that they are told of is not there."""

    make_provider = staticmethod(lambda: LoopbackProvider({"session": tempfile.mkdtemp()}))
    running_seconds = None

    @staticmethod
    def reopen_provider(provider: Any) -> LoopbackProvider:
        return LoopbackProvider({"session": str(provider._root.parent)})
