"""Tables of experiments and trials: filtered, sorted, fitted to the terminal, written to files."""

from __future__ import annotations

import csv
import operator
import os
import pickle
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from kernel_spec.nearest import nearest
from kernel_tune.errors import TuneError

Row = dict[str, Any]

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def filtered(rows: Sequence[Row], condition: str | None) -> list[Row]:
    """Return the rows for which `<column> <operator> <value>` holds. Rows without a value are left out."""
    if not condition:
        return list(rows)
    parts = shlex.split(condition)
    if len(parts) != 3 or parts[1] not in _COMPARISONS:
        raise TuneError(
            f"the filter {condition!r} is not of the form '<column> <operator> <value>', with an operator of "
            f"{' '.join(_COMPARISONS)}"
        )
    column, word, text = parts
    known(rows, [column])
    compare = _COMPARISONS[word]
    kept = []
    for row in rows:
        value = row.get(column)
        if value is None:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        other: Any = _number(text, column) if is_number else text
        if compare(value if isinstance(other, (int, float)) else str(value), other):
            kept.append(row)
    return kept


def _number(text: str, column: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise TuneError(
            f"the filter compares the column {column}, which has numbers, with {text!r}: give a number, as in "
            f"'{column} > 0.5'"
        ) from None


def sorted_rows(rows: Sequence[Row], columns: Sequence[str], descending: bool = False) -> list[Row]:
    """Return the rows sorted by these columns. Rows without a value come last."""
    known(rows, columns)
    ordered = list(rows)
    for column in reversed(columns):
        there = [row for row in ordered if row.get(column) is not None]
        there.sort(key=lambda row, column=column: _sortable(row[column]), reverse=descending)  # type: ignore[misc]
        ordered = there + [row for row in ordered if row.get(column) is None]
    return ordered


def _sortable(value: Any) -> tuple[int, Any]:
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def known(rows: Sequence[Row], columns: Sequence[str]) -> None:
    """Raise TuneError for a column that no row has. It suggests a similar one, or lists all."""
    there = list(dict.fromkeys(key for row in rows for key in row))
    for column in columns:
        if rows and column not in there:
            near = nearest(column, there, 0.6)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(there)}"
            raise TuneError(f"there is no column {column!r}{hint}")


def columns_of(rows: Sequence[Row], wanted: Sequence[str]) -> list[str]:
    """Return the wanted columns, or all, without empty ones."""
    names = list(wanted) or list(dict.fromkeys(key for row in rows for key in row))
    return [name for name in names if any(row.get(name) not in (None, "") for row in rows)]


def shown(rows: Sequence[Row], columns: Sequence[str], width: int) -> tuple[str, list[str]]:
    """Return the rows as a table of at most `width` characters, and the columns that did not fit."""
    cells = {name: [name, *(_cell(row.get(name)) for row in rows)] for name in columns}
    widths = {name: max(map(len, texts)) for name, texts in cells.items()}
    fitting: list[str] = []
    used = 1
    for name in columns:
        if used + widths[name] + 3 > width:
            break
        fitting.append(name)
        used += widths[name] + 3
    rule = "+" + "+".join("-" * (widths[name] + 2) for name in fitting) + "+"
    lines = [rule]
    for index in range(len(rows) + 1):
        lines.append("|" + "|".join(f" {cells[name][index]:<{widths[name]}} " for name in fitting) + "|")
        if index == 0:
            lines.append(rule)
    return "\n".join([*lines, rule]), [name for name in columns if name not in fitting]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def write(rows: Sequence[Row], columns: Sequence[str], path: str) -> None:
    """Write the rows to a file: as CSV, or with the ending `.pkl` as a pickled list of dicts."""
    ending = os.path.splitext(path)[1].lower()
    chosen = [{name: row.get(name) for name in columns} for row in rows]
    if ending in (".pkl", ".pickle"):
        with open(path, "wb") as file:
            pickle.dump(chosen, file)
    elif ending in (".csv", ""):
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(chosen)
    else:
        raise TuneError(f"{path} has the ending {ending}: tables are written as .csv or .pkl")
