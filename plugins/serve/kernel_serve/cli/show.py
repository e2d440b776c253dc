"""Print applications, proxies and configurations."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Any

import click

from kernel_serve.api.addresses import grpc_addresses, proxy_addresses
from kernel_serve.cli.tables import table

_COLOURS = {
    "RUNNING": "green",
    "HEALTHY": "green",
    "DEPLOYING": "yellow",
    "UPDATING": "yellow",
    "UPSCALING": "yellow",
    "DOWNSCALING": "yellow",
    "DELETING": "yellow",
    "DEPLOY_FAILED": "red",
    "UNHEALTHY": "red",
}


def show_status(status: Mapping[str, Any]) -> None:
    """Print applications with their deployments, endpoints that stand alone, and where proxies take HTTP and gRPC."""
    applications = status.get("applications") or {}
    if not applications:
        click.echo("No application is deployed.")
    for name, application in applications.items():
        _show_application(name, application, bool(grpc_addresses(status)))
    _show_endpoints(status, {name for name in applications})
    addresses = proxy_addresses(status)
    if addresses:
        click.echo(f"Requests go to {', '.join(addresses)}")
    show_grpc(status)


def show_grpc(status: Mapping[str, Any]) -> None:
    """Print where proxies take gRPC, if they do."""
    addresses = grpc_addresses(status)
    if addresses:
        click.echo(f"gRPC calls go to {', '.join(addresses)}")


def _show_application(name: str, application: Mapping[str, Any], grpc: bool) -> None:
    reached = "only handles and gRPC reach it" if grpc else "only handles reach it"
    prefix = application.get("route_prefix") or f"no route: {reached}"
    click.echo(f"{click.style(name, bold=True)}  {_status(application)}  {prefix}")
    _show_message(application.get("message"), "  ")
    rows = []
    for deployment, view in (application.get("deployments") or {}).items():
        states = ", ".join(f"{count} {state}" for state, count in (view.get("replica_states") or {}).items()) or "none"
        rows.append((f"  {deployment}", str(view.get("status", "")), states))
    if rows:
        click.echo(table((), rows))
    for deployment, view in (application.get("deployments") or {}).items():
        _show_message(view.get("message"), f"  {deployment}: ")
        _show_message(view.get("autoscaling_decision"), f"  {deployment}: ")


def _show_endpoints(status: Mapping[str, Any], applications: set[str]) -> None:
    rows = []
    for endpoint in status.get("endpoints") or ():
        if endpoint.get("name") in applications:
            continue
        targets = ", ".join(f"{key} {weight:g}" for key, weight in (endpoint.get("targets") or {}).items())
        rows.append((str(endpoint.get("name")), str(endpoint.get("route_prefix")), targets))
    if rows:
        click.echo(table(("ENDPOINT", "PREFIX", "TARGETS"), rows))


def _status(view: Mapping[str, Any]) -> str:
    text = str(view.get("status", ""))
    return click.style(text, fg=_COLOURS.get(text))


def _show_message(message: Any, indent: str) -> None:
    if not message:
        return
    width = max(40, shutil.get_terminal_size((100, 40)).columns)
    first, *rest = str(message).splitlines()
    click.echo(click.wrap_text(first, width, initial_indent=indent, subsequent_indent="  "))
    for line in rest:
        click.echo(f"    {line}")
