"""`kernel events`: what happens in a cluster, line by line, over its control plane."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kernel.cli import display
from kernel.commands import Failure
from kernel_processes.cli.client import DistantHead, address_option, find_head, json_option
from kernel_processes.node.session_ways import ways_at
from kernel_spec.observers import STATES

if TYPE_CHECKING:
    from kernel_control_grpc.client import ControlPlane


@click.command("events")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(STATES)), help="Only these things (repeatable).")
@click.option("--count", type=click.IntRange(min=1), help="End after so many events.")
@address_option
@json_option
def events(kinds: Sequence[str], count: int | None, address: str | None, as_json: bool) -> None:
    """Show what happens to nodes, workers, actors, placement groups, tasks and objects from now on, until Ctrl-C.

    \b
    Examples:
      kernel events
      kernel events --kind node --kind actor
      kernel events --address 10.0.0.1:6380 --token-file kernel.token --json
    """
    with _control_plane(address) as cluster:
        stream = cluster.events.watch(kinds=list(kinds))
        shown = 0
        for response in stream:
            if response.missed:
                click.echo(f"{display.count(response.missed, 'event')} missed", err=True)
            for event in response.events:
                _show(event, as_json)
                shown += 1
                if shown == count:
                    return


def _control_plane(address: str | None) -> ControlPlane:
    found = find_head(address)
    if isinstance(found, DistantHead):
        place, tls = found.name, found.tls
    else:
        ways = ways_at(found.directory)
        place, tls = found.head or ways.gateway, ways.tls
    if not place:
        raise Failure(
            f"session {found.name} has no port, so its control plane can't be reached; one that "
            "`kernel start --head` starts has a port"
        )
    from kernel_control_grpc.client import ControlPlane

    return ControlPlane(place, found.token(), tls)


def _show(event: Any, as_json: bool) -> None:
    detail = dict(sorted(event.detail.items()))
    if as_json:
        row = {"kind": event.kind, "state": event.state, "id": event.id, "time": event.time, "detail": detail}
        click.echo(json.dumps(row))
        return
    at = time.strftime("%H:%M:%S", time.localtime(event.time))
    said = ", ".join(f"{name}: {value}" for name, value in detail.items() if value)
    click.echo(f"{at}  {event.kind:<15}  {event.state:<12}  {event.id}  {display.dim(said)}".rstrip())
