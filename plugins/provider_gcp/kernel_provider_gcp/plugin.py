"""The hooks of this distribution. google-auth is imported when the provider is chosen."""

from __future__ import annotations

import time
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
    """Offer the provider `gcp`."""
    return {"gcp": make_gcp}


def make_gcp(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider; `configuration` is as `read_settings` takes it. Nothing is asked of Google yet."""
    from kernel_provider_gcp.credentials import ApplicationCredentials
    from kernel_provider_gcp.provider import GcpProvider
    from kernel_provider_gcp.rest import GoogleRest
    from kernel_provider_gcp.settings import read_settings

    settings = read_settings(configuration)
    return GcpProvider(settings, GoogleRest(ApplicationCredentials()), time.monotonic, time.sleep)
