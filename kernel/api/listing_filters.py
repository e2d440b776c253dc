"""Filters of listings: check them, and choose the rows that match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_spec.errors import OptionError
from kernel_spec.nearest import did_you_mean

Filter = tuple[str, str, Any]
"""Column, "=" or "!=", value."""

PREDICATES = ("=", "!=")
_WORDS = {"true": True, "1": True, "false": False, "0": False}


def check_filters(kind: str, filters: Any, columns: Sequence[str]) -> list[Filter]:
    """Return the filters as a list. Raises OptionError for an unknown predicate or column, or a malformed filter."""
    if filters is None:
        return []
    if isinstance(filters, (str, bytes)) or not isinstance(filters, Sequence):
        raise OptionError(f'filters must be a list such as [("state", "=", "ALIVE")], not {filters!r}')
    return [_checked(kind, one, columns) for one in filters]


def chosen(rows: Sequence[dict[str, Any]], filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """Return the rows that match all filters. Raises OptionError for a value that its column can't have."""
    found = list(rows)
    for column, predicate, value in filters:
        found = [row for row in found if _equal(column, row.get(column), value) == (predicate == "=")]
    return found


def parse_filter(text: str) -> Filter:
    """Parse the filter `column=value` or `column!=value`. Raises OptionError for another text."""
    column, predicate, value = text.partition("=")
    if not predicate or not column.removesuffix("!"):
        raise OptionError(f"{text!r} is not a filter; write COLUMN=VALUE or COLUMN!=VALUE")
    if column.endswith("!"):
        return column[:-1].strip(), "!=", value.strip()
    return column.strip(), "=", value.strip()


def _checked(kind: str, given: Any, columns: Sequence[str]) -> Filter:
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence) or len(given) != 3:
        raise OptionError(
            f'a filter is a column, "=" or "!=", and a value, such as ("state", "=", "ALIVE"), not {given!r}'
        )
    column, predicate, value = given
    if predicate not in PREDICATES:
        raise OptionError(f"a filter compares with = or !=, not with {predicate!r}, as in {given!r}")
    if column not in columns:
        hint = did_you_mean(column, columns, f"{kind} can be filtered by {', '.join(columns)}", likeness=0.6)
        raise OptionError(f"{kind} can't be filtered by {column!r}{hint}")
    if not isinstance(value, (str, bool, int, float)):
        raise OptionError(f"the value of a filter must be text, a number, True or False, not {value!r}")
    return column, predicate, value


def _equal(column: str, have: Any, wanted: Any) -> bool:
    if isinstance(have, bool):
        if isinstance(wanted, str) and wanted.lower() not in _WORDS:
            raise OptionError(f"{column} is true or false, not {wanted!r}")
        return have == (_WORDS[wanted.lower()] if isinstance(wanted, str) else wanted)
    if isinstance(have, (int, float)):
        try:
            return have == float(wanted)
        except ValueError:
            raise OptionError(f"{column} is a number, not {wanted!r}") from None
    return str("" if have is None else have).lower() == str(wanted).lower()
