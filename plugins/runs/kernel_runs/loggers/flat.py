"""A result as one level of keys, without the configuration."""

from __future__ import annotations

from typing import Any

from kernel_runs.reports import CONFIG, Report, flatten


def flat_of(result: Report) -> dict[str, Any]:
    """Return a copy without the configuration, and with nested dicts as keys like `a/b`.

    The result is that of `flatten`, but a result that is flat already, as most are, costs little.
    """
    row: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, dict):
            if key != CONFIG:
                row.update(flatten({key: value}))
        elif type(key) is str:
            row[key] = value
        else:
            row[str(key)] = value
    row.pop(CONFIG, None)
    return row
