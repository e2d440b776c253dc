"""`kernel explain`: show what an object, an actor or a placement group is waiting for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel.commands import Refusal, nearest
from kernel_processes.cli.client import SessionClient, address_option, find_head, json_option
from kernel_processes.cli.values import id_of

_SHORTEST = 4
"""Minimum number of characters of an id."""


@click.command("explain")
@click.argument("what", metavar="REF|ACTOR|GROUP")
@address_option
@json_option
def explain(what: str, address: str | None, as_json: bool) -> None:
    """Say what an object, an actor or a placement group waits for: which resource, which argument, which process.

    REF|ACTOR|GROUP is an id (its first characters will do), a name, or an actor's class.

    \b
    Examples:
      kernel explain 5f0c91d2a3b4e5f60100000000000000
      kernel explain "ObjectRef(5f0c91d2a3b4e5f6010000000000000000000000)"
      kernel explain counter
    """
    text = id_of(what)
    session = find_head(address)
    with SessionClient(session) as client:
        actors, groups = client.ask("actors"), client.ask("placement_groups")
        rows = _of_named(client, actors, groups, text) or _of_id(client, text)
    if not rows:
        raise Refusal(_unknown(text, [*actors, *groups], session.name))
    if as_json:
        display.echo_json([{"kind": kind, "id": id, "explanation": reason} for kind, id, reason in rows])
        return
    for kind, id, reason in rows:
        click.echo(f"{kind} {display.heading(id)}")
        click.echo(click.wrap_text(reason, display.terminal_width(), initial_indent="  ", subsequent_indent="  "))


def _of_named(
    client: SessionClient, actors: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]], name: str
) -> list[tuple[str, str, str]]:
    """Explain the actors and placement groups called `name`, or if there are none the living actors of that class."""
    found = [actor for actor in actors if actor["name"] == name]
    named = [group["placement_group_id"] for group in groups if group["name"] == name]
    if not named:
        found = found or [actor for actor in actors if actor["class_name"] == name and actor["state"] != "DEAD"]
    ids = [actor["actor_id"] for actor in found]
    rows = [("actor", id, client.ask("explain_actor", bytes.fromhex(id))) for id in ids]
    return rows + [("placement group", id, client.ask("explain_placement_group", id)) for id in named]


def _of_id(client: SessionClient, text: str) -> list[tuple[str, str, str]]:
    """Explain everything whose id begins with `text`; print a line for each process that did not answer."""
    digits = text.lower()
    if not re.fullmatch(r"[0-9a-f]+", digits):
        return []
    if len(digits) < _SHORTEST:
        raise Refusal(f"{text!r} is too short for an id; give at least {_SHORTEST} characters")
    rows = client.ask("explain_any", bytes.fromhex(digits[: len(digits) // 2 * 2]))
    for kind, _, sentence in rows:
        if kind == "process":
            click.echo(sentence, err=True)
    return [row for row in rows if row[0] != "process" and (row[1].startswith(digits) or digits.startswith(row[1]))]


def _unknown(text: str, rows: Sequence[Mapping[str, Any]], session: str) -> str:
    names = {row["name"] for row in rows} | {row.get("class_name") for row in rows}
    hint = nearest(text, sorted(names - {"", None})) or "; an object without references is forgotten"
    return f"session {session} knows no object, no actor and no placement group {text!r}{hint}"
