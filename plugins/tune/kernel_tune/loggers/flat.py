"""A result as one level of keys, without the configuration."""

from __future__ import annotations

from typing import Any

from kernel_tune.result import CONFIG, Result, flatten


def flat_of(result: Result) -> dict[str, Any]:
    """Return a copy without the configuration, with nested dicts as keys like `a/b`."""
    row = {key: value for key, value in result.items() if key != CONFIG}
    for key, value in row.items():
        if type(key) is not str or isinstance(value, dict):
            return flatten(row)
    return row
