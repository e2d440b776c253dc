"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return rows below their heads (with [] without a line of heads), each column as wide as its longest cell.

    `right` are the columns that are aligned at their right end.
    """
    lines = [heads, *rows] if heads else list(rows)
    if not lines:
        return ""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    padded = [
        [text.rjust(width) if column in right else text.ljust(width) for column, (text, width) in enumerate(pairs)]
        for pairs in (zip(line, widths, strict=True) for line in lines)
    ]
    return "\n".join("  ".join(line).rstrip() for line in padded)
