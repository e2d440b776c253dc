"""Results and configurations as readable text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kernel_runs.loggers.encoding import to_json

_IN_ONE_LINE = 3
"""The largest number of items that a list has one line each for; longer lists are written in one line."""


def pretty_print(result: dict[str, Any], exclude: set[str] | None = None) -> str:
    """Return a result as YAML with sorted keys, without `config`, `hist_stats`, the keys of `exclude`, and values None.

    It does not print: `print(pretty_print(result))`.
    """
    left_out = {"config", "hist_stats", *(exclude or ())}
    kept = {key: value for key, value in result.items() if key not in left_out and value is not None}
    return "".join(f"{line}\n" for line in _lines(json.loads(to_json(kept)), ""))


def _lines(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _entry(f"{indent}{_scalar(key)}:", value[key], indent + "  ")
    else:
        for item in value:
            yield from _entry(f"{indent}-", item, indent + "  ")


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """Yield a key or a dash with its value: on the same line if it is short, otherwise below."""
    if isinstance(value, list) and (len(value) > _IN_ONE_LINE or not value) and not _nested(value):
        yield f"{head} [{', '.join(_scalar(item) for item in value)}]"
    elif isinstance(value, (dict, list)) and value:
        yield head
        yield from _lines(value, indent)
    else:
        yield f"{head} {_scalar(value)}"


def _nested(values: list[Any]) -> bool:
    return any(isinstance(value, (dict, list)) for value in values)


def _scalar(value: Any) -> str:
    """Return a value in a form that YAML reads as the same value."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    if not isinstance(value, str):
        return json.dumps(value)
    plain = value and value.strip() == value and not value.startswith(tuple("-?:,[]{}#&*!|>'\"%@`"))
    if plain and ": " not in value and " #" not in value and "\n" not in value and value[-1] != ":":
        try:
            json.loads(value)  # a text that looks like a number
        except ValueError:
            if value.lower() not in ("yes", "no", "on", "off", "true", "false", "null", "~"):
                return value
    return json.dumps(value)
