"""Output of the command line: tables, sizes, times, bars. Colours are used only on a terminal."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class WaitingMessage:
    """A line on a terminal that says what a command waits for, if that takes long. It is erased afterwards."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begun = time.monotonic()
        self._shown = 0

    def __enter__(self) -> WaitingMessage:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            click.echo("\r" + " " * self._shown + "\r", err=True, nl=False)

    def show(self) -> None:
        """Show the time that has passed. To be called repeatedly."""
        seconds = time.monotonic() - self._begun
        if seconds > 0.5 and sys.stderr.isatty():
            text = f"{self._what} ... {seconds:.0f} s"
            self._shown = len(text)
            click.echo("\r" + text, err=True, nl=False)


def echo_json(value: Any) -> None:
    """Print a value as JSON; bytes become hexadecimal text."""
    click.echo(json.dumps(value, indent=2, default=lambda one: one.hex() if isinstance(one, bytes) else str(one)))


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 0, right: Sequence[int] = (), cut: bool = True
) -> None:
    """Print columns as wide as they need to be, those numbered in `right` flush right.

    With `cut` the last column is cut, on a terminal, to what fits, from its left end.
    """
    widths = [max(len(click.unstyle(row[column])) for row in [heads, *rows]) for column in range(len(heads))]
    if cut and sys.stdout.isatty():
        taken = indent + sum(widths[:-1]) + 2 * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(10, terminal_width() - taken))
    for number, row in enumerate([heads, *rows]):
        cells = []
        for column, cell in enumerate(row):
            fitted = shorten(cell, widths[column])
            padding = " " * (widths[column] - len(click.unstyle(fitted)))
            cells.append(padding + fitted if column in right else fitted + padding)
        line = (" " * indent + "  ".join(cells)).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size((100, 24)).columns


def shorten(text: str, width: int) -> str:
    """Return the end of `text` when it is longer than `width` characters."""
    if len(click.unstyle(text)) <= width:
        return text
    return ellipsis() + click.unstyle(text)[-(width - len(ellipsis())) :]


def heading(text: str) -> str:
    """Return `text` in the style of a heading."""
    return click.style(text, bold=True)


def dim(text: str) -> str:
    """Return `text` in the style of less important text."""
    return click.style(text, dim=True)


def size(count: float) -> str:
    """Return a number of bytes as text: `0 B`, `1.5 kB`, `8.2 GB`."""
    power = 0
    while abs(count) >= 999.95 and power < len(_UNITS) - 1:
        count /= 1000
        power += 1
    return f"{count:.0f} B" if power == 0 else f"{count:.1f} {_UNITS[power]}"


def quantity(amount: float) -> str:
    """Return a number of CPUs, GPUs and the like without needless digits."""
    return f"{amount:.4f}".rstrip("0").rstrip(".")


def duration(seconds: float) -> str:
    """Return seconds as text: `0.3 s`, `42 s`, `3 min 12 s`, `5 h 3 min`, `2 d 4 h`."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def count(number: int, noun: str) -> str:
    """Return `1 worker`, `3 workers`, `2 processes`."""
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def bar(used: float, total: float, width: int = 20) -> str:
    """Return a bar of `width` characters that shows the share of `used` in `total`."""
    full, empty = ("█", "░") if speaks_unicode() else ("#", ".")
    share = min(1.0, used / total) if total else 0.0
    cells = round(share * width)
    if used and not cells:
        cells = 1
    colour = "red" if share > 0.95 else "yellow" if share > 0.75 else "green"
    return click.style(full * cells, fg=colour) + dim(empty * (width - cells))


def speaks_unicode() -> bool:
    """Return whether the output can show more than ASCII."""
    try:
        "█…".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def ellipsis() -> str:
    """Return the sign for something left out."""
    return "…" if speaks_unicode() else "..."
