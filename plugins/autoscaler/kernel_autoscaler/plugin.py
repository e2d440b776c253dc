"""The hooks of this distribution. What they offer is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_spec.hooks import hookimpl
from kernel_spec.services import HeadService

if TYPE_CHECKING:
    import click

    from kernel_spec.providers import NodeProvider

CONFORMANCE = {"node_provider": {"configuration": {"kinds": {"small": {"CPU": 1.0}}}, "running_seconds": None}}
"""Values for the conformance suite. Nothing ever runs there, as there is no head to join."""


@hookimpl
def kernel_contracts() -> Mapping[str, int]:
    """Say which contracts this was written for."""
    return {"cli_command": 1, "head_service": 1, "node_provider": 1}


@hookimpl
def kernel_head_services() -> Mapping[str, Callable[[], HeadService]]:
    """Offer the service `autoscaler`."""
    return {"autoscaler": make_service}


@hookimpl
def kernel_node_providers() -> Mapping[str, Callable[[Mapping[str, Any]], NodeProvider]]:
    """Offer the provider `loopback`: nodes on the head's own machine, to try an autoscaler out."""
    return {"loopback": make_loopback}


@hookimpl
def kernel_cli_commands() -> Sequence[click.Command]:
    """Offer `kernel autoscaler`."""
    from kernel_autoscaler.cli.command import autoscaler

    return [autoscaler]


def make_service() -> HeadService:
    """Return the service."""
    from kernel_autoscaler.shell.service import AutoscalerService

    return AutoscalerService()


def make_loopback(configuration: Mapping[str, Any]) -> NodeProvider:
    """Return the provider; `configuration` is as `LoopbackProvider` takes it."""
    from kernel_autoscaler.loopback import LoopbackProvider

    return LoopbackProvider(configuration)
