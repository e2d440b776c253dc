"""What the command line answers when something can't be done: one line, with the nearest name there is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import click


class Refusal(click.ClickException):
    """Something was asked for that isn't there or makes no sense. Exit code 2."""

    exit_code = 2


class Failure(click.ClickException):
    """Something was right to ask for and could not be done. Exit code 1."""

    exit_code = 1


class NearestGroup(click.Group):
    """A group of commands that refuses an unknown one with the nearest there is."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Answer an unknown command in one line."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise unknown(f"command {f'{ctx.command_path} {name}'!r}", name, self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def unknown(what: str, name: str, known: Iterable[str]) -> Refusal:
    """Return the refusal of `what`, whose name is `name`: with the nearest of `known`, or all of them."""
    names = list(known)
    hint = nearest(name, names) or f"; there are {', '.join(names)}"
    return Refusal(f"there is no {what}{hint}")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean 'x'?` when one of `known` is close to `name`, else nothing."""
    names = list(known)
    begun = [one for one in names if name and one.startswith(name)]
    close = begun or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def one_line(text: str) -> str:
    """Return `text` with every line break and run of spaces made one space."""
    return " ".join(text.split())
