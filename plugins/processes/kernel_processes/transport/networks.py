"""Open the network of a session in one of its processes, by its target, which the agent has passed on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_spec.networks import Network


def load_network(target: str) -> Network:
    """Import the network that is "module:attribute". Raises whatever its module raises when it can't be imported."""
    module, _, attribute = target.partition(":")
    network: Network = getattr(importlib.import_module(module), attribute)
    return network
