"""The hooks of this distribution. What they offer is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_spec.hooks import hookimpl

if TYPE_CHECKING:
    import click

    from kernel_spec.providers import NodeProvider


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contracts this was written for."""
    return {"cli_command": 1, "node_provider": 1}


@hookimpl
def kernel_node_providers() -> Mapping[str, Callable[[Mapping[str, Any]], NodeProvider]]:
    """Offer the providers `local`, a list of hosts, and `coordinator`, one that several users share."""
    return {"local": make_local, "coordinator": make_coordinated}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel coordinator`."""
    from kernel_provider_local.command import coordinator

    return [coordinator]


def make_local(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider of hosts that `configuration` lists; no host is asked yet."""
    from kernel_provider_local.leases import LeaseFile
    from kernel_provider_local.provider import HostProvider
    from kernel_provider_local.settings import read_kinds, read_leases_file, read_settings

    settings = read_settings(configuration, coordinator=False)
    table = LeaseFile(read_leases_file(configuration), read_kinds(configuration.get("kinds")))
    return HostProvider("local", settings, table)


def make_coordinated(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider of hosts that a coordinator lists; neither it nor a host is asked yet."""
    from kernel_provider_local.coordinator_client import read_client
    from kernel_provider_local.provider import HostProvider
    from kernel_provider_local.settings import read_settings

    return HostProvider("coordinator", read_settings(configuration, coordinator=True), read_client(configuration))
