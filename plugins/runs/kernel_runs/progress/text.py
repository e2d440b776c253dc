"""Tables and durations as text and as HTML."""

from __future__ import annotations

import html
import numbers
from collections.abc import Sequence
from typing import Any


def cell(value: Any) -> str:
    """Return a value as it stands in a table: numbers with six significant digits."""
    if value is None:
        return ""
    if isinstance(value, (bool, numbers.Integral)) or not isinstance(value, numbers.Real):
        return str(value)
    return f"{float(value):.6g}"


def text_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table of text with a frame. Columns of numbers are aligned to the right."""
    cells = [[cell(value) for value in row] for row in rows]
    right = [
        bool(rows) and all(value is None or _is_number(value) for value in column)
        for column in ([row[i] for row in rows] for i in range(len(header)))
    ]
    widths = [max(len(name), *(len(row[i]) for row in cells), 0) for i, name in enumerate(header)]

    def line(values: Sequence[str]) -> str:
        padded = [
            value.rjust(width) if flush else value.ljust(width)
            for value, width, flush in zip(values, widths, right, strict=True)
        ]
        return f"| {' | '.join(padded)} |"

    rule = "+".join("-" * (width + 2) for width in widths)
    return "\n".join([f"+{rule}+", line(header), f"|{rule}|", *map(line, cells), f"+{rule}+"])


def html_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as HTML."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def duration(seconds: float) -> str:
    """Return a duration as `01:02:03`, after the number of days if there are any."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86400)
    shown = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days} days, {shown}" if days else shown
