"""`kernel explain`: what an object or an actor is waiting for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kernel.cli import display
from kernel.cli.client import SessionClient, address_option, find_session, json_option
from kernel.cli.refusals import Refusal, nearest
from kernel.cli.values import id_of

_SHORTEST = 4
"""How many characters of an id are asked for at least."""


@click.command("explain")
@click.argument("what", metavar="REF|ACTOR")
@address_option
@json_option
def explain(what: str, address: str | None, as_json: bool) -> None:
    """Say what an object or an actor waits for: which resource, which argument, which process.

    REF|ACTOR is the id of an object or an actor (its first characters will do), an actor's name, or its class.

    \b
    Examples:
      kernel explain 5f0c91d2a3b4e5f60100000000000000
      kernel explain "ObjectRef(5f0c91d2a3b4e5f6010000000000000000000000)"
      kernel explain counter
    """
    text = id_of(what)
    session = find_session(address)
    with SessionClient(session) as client:
        actors = client.ask("actors")
        rows = _of_named(client, actors, text) or _of_id(client, text)
    if not rows:
        raise Refusal(_unknown(text, actors, session.name))
    if as_json:
        display.echo_json([{"kind": kind, "id": id, "explanation": reason} for kind, id, reason in rows])
        return
    for kind, id, reason in rows:
        click.echo(f"{kind} {display.heading(id)}")
        click.echo(click.wrap_text(reason, display.terminal_width(), initial_indent="  ", subsequent_indent="  "))


def _of_named(client: SessionClient, actors: Sequence[Mapping[str, Any]], name: str) -> list[tuple[str, str, str]]:
    """Explain the actors of that name, else the living ones of that class."""
    found = [actor for actor in actors if actor["name"] == name]
    found = found or [actor for actor in actors if actor["class_name"] == name and actor["state"] != "DEAD"]
    ids = [actor["actor_id"] for actor in found]
    return [("actor", id, client.ask("explain_actor", bytes.fromhex(id))) for id in ids]


def _of_id(client: SessionClient, text: str) -> list[tuple[str, str, str]]:
    """Explain everything whose id begins with `text`."""
    digits = text.lower()
    if not re.fullmatch(r"[0-9a-f]+", digits):
        return []
    if len(digits) < _SHORTEST:
        raise Refusal(f"{text!r} is too short for an id; give at least {_SHORTEST} characters")
    rows = client.ask("explain_any", bytes.fromhex(digits[: len(digits) // 2 * 2]))
    return [row for row in rows if row[1].startswith(digits) or digits.startswith(row[1])]


def _unknown(text: str, actors: Sequence[Mapping[str, Any]], session: str) -> str:
    names = {actor["name"] for actor in actors} | {actor["class_name"] for actor in actors}
    hint = nearest(text, sorted(names - {"", None})) or "; an object that nobody needs any more is forgotten"
    return f"session {session} knows no object and no actor {text!r}{hint}"
