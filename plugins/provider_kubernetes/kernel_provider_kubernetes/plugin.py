"""The hooks of this distribution. What they offer is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    from kernel_spec.providers import NodeProvider


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contract this was written for."""
    return {"node_provider": 1}


@hookimpl
def kernel_node_providers() -> Mapping[str, Callable[[Mapping[str, Any]], NodeProvider]]:
    """Offer the provider `kubernetes`."""
    return {"kubernetes": make_kubernetes}


def make_kubernetes(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider; `configuration` is as `KubernetesProvider` takes it."""
    from kernel_provider_kubernetes.provider import KubernetesProvider

    return KubernetesProvider(configuration)
