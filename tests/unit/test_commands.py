"""Command lines of others, made with `kernel.commands`."""

from __future__ import annotations

import click
import pytest

from kernel.commands import CommandGroup, run_commands
from kernel_spec.errors import KernelError, UsageError

TRACEBACK = 'it failed:\n  File "mine.py", line 3, in f\nValueError: broken'


@click.group(cls=CommandGroup)
def shop() -> None:
    """Run a shop."""


@shop.command()
@click.option("--how", default="well")
def sell(how: str) -> None:
    """Sell something."""
    if how == "wrongly":
        raise UsageError("nothing can be\nsold wrongly")
    if how == "badly":
        raise KernelError("nobody buys it")
    if how == "brokenly":
        raise KernelError(TRACEBACK)
    click.echo(f"sold {how}")


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["sell"], 0, "sold well\n", ""),
        (["sell", "--how", "wrongly"], 2, "", "shop: nothing can be sold wrongly\n"),
        (["sell", "--how", "badly"], 1, "", "shop: nobody buys it\n"),
        (["sell", "--how", "brokenly"], 1, "", f"shop: {TRACEBACK}\n"),
        (["sel"], 2, "", "shop: there is no command 'shop sel', did you mean 'sell'?\n"),
        (["sell", "--hwo"], 2, "", "shop: shop sell: No such option '--hwo'. Did you mean '--how'?\n"),
    ],
)
def test_every_answer_is_in_words(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, out: str, err: str
) -> None:
    assert run_commands(shop, "shop", arguments) == code
    told = capsys.readouterr()
    assert (told.out, told.err) == (out, err)
