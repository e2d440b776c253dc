"""The command `kernel hello`."""

from __future__ import annotations

import click


@click.command("hello")
@click.option("--who", default="world", show_default=True, help="Whom to greet.")
def hello(who: str) -> None:
    """Greet somebody.

    Example: kernel hello --who you
    """
    click.echo(f"Hello, {who}!")
