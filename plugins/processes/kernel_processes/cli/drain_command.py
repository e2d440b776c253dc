"""`kernel drain`: let a node finish its work, copy its objects to other nodes, and wait until it has left."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Failure, Refusal
from kernel_processes.cli.client import SessionClient, address_option, find_head
from kernel_processes.node.sessions import SessionDirectory, reason_of_end

_POLL_SECONDS = 0.2
DRAINED = "it was drained"
"""Beginning of the reason for which a drained node ends."""


@click.command("drain")
@click.argument("node")
@click.option(
    "--deadline",
    type=click.FloatRange(min=0),
    metavar="S",
    help="Let it leave after S seconds even if work still runs.",
)
@click.option("--no-wait", is_flag=True, help="Return at once; `kernel status` shows the progress.")
@click.option("--cancel", is_flag=True, help="Let a node that is being drained stay.")
@address_option
def drain(node: str, deadline: float | None, no_wait: bool, cancel: bool, address: str | None) -> None:
    """Let NODE leave the cluster when its work is done.

    NODE is its id or the beginning of it, its host, or its HOST:PORT. No new work starts there. Running work goes on,
    and objects in its store are copied to other nodes. Actors and programs count as work: the node stays until they
    have ended, unless there is a deadline. Work that the deadline cuts off runs again elsewhere, as far as max_retries
    and max_restarts allow. Until it has left, --cancel lets it stay and work again.

    \b
    Examples:
      kernel drain 1f2e3d4c
      kernel drain 10.0.0.2:40123 --deadline 60
    """
    session = find_head(address)
    with SessionClient(session) as client:
        row = chosen_node(node, client.ask("nodes"))
        name = f"{row['NodeID'][:8]} ({row['NodeManagerHostname']})"
        if cancel:
            if deadline is not None:
                raise Refusal("--deadline says when a node leaves, and --cancel that it stays: give one of them")
            client.ask("cancel_drain", row["NodeID"])
            click.echo(f"node {name} stays")
            return
        client.ask("drain_node", row["NodeID"], deadline)
        if no_wait:
            click.echo(f"node {name} is being drained")
            return
        try:
            end = _await_end(client, row["NodeID"], f"draining {name}")
        except Failure:
            reason = reason_of_end(session.directory) if isinstance(session, SessionDirectory) else ""
            if not reason.startswith(DRAINED):
                raise
            end = {"State": "DRAINED"}  # The agent that was asked is that of this machine's node, which has left.
    if end["State"] != "DRAINED":
        raise Failure(f"node {name} died before it was drained: {end['Cause']}")
    click.echo(f"node {name} has left")


def chosen_node(name: str, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the living node that `name` names. Raises Refusal unless exactly one node matches."""
    living = [row for row in rows if row["Alive"]]
    found = [row for row in living if name in (row["NodeManagerHostname"], place_of(row))]
    found = found or [row for row in living if name and row["NodeID"].startswith(name.lower())]
    if len(found) == 1:
        return found[0]
    there = ", ".join(f"{row['NodeID'][:8]} ({place_of(row)})" for row in found or living)
    problem = f"{name!r} fits {len(found)} nodes" if found else f"there is no living node {name!r}; there are"
    raise Refusal(f"{problem}{':' if found else ''} {there}")


def place_of(row: Mapping[str, Any]) -> str:
    """Return where a node listens as HOST:PORT, or "this machine" for a node without a port."""
    return f"{row['NodeManagerAddress']}:{row['NodeManagerPort']}" if row["NodeManagerPort"] else "this machine"


def _await_end(client: SessionClient, id: str, what: str) -> Mapping[str, Any]:
    with display.WaitingMessage(what) as waiting:
        while True:
            row: Mapping[str, Any] = next(row for row in client.ask("nodes") if row["NodeID"] == id)
            if not row["Alive"]:
                return row
            waiting.show()
            time.sleep(_POLL_SECONDS)
