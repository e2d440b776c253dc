"""The hooks of this distribution. boto3 is imported when the provider is chosen."""

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
    """Offer the provider `aws`."""
    return {"aws": make_aws}


def make_aws(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider; `configuration` is as `read_settings` takes it. Nothing is asked of AWS yet."""
    from kernel_provider_aws.clients import Clients
    from kernel_provider_aws.provider import AwsProvider
    from kernel_provider_aws.settings import read_settings

    settings = read_settings(configuration)
    return AwsProvider(settings, Clients(settings.region, settings.profile), time.monotonic, time.time)
