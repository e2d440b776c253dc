"""Format the record of a task's exception as Python would have printed it in the task's process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n"


def text_of(record: dict[str, Any]) -> str:
    """Return the traceback with its chain; `record` is described in `task_error`."""
    return "\n".join(_lines(record))


def _lines(record: dict[str, Any]) -> Iterator[str]:
    for linked, phrase in ((record["cause"], _CAUSE), (record["context"], _CONTEXT)):
        if linked is not None and not (linked is record["context"] and record["suppress"]):
            yield from _lines(linked)
            yield phrase
    if record["frames"]:
        yield "Traceback (most recent call last):"
    for filename, number, function, source, _ in record["frames"]:
        yield f'  File "{filename}", line {number}, in {function}'
        if source:
            yield f"    {source}"
    module = record["module"]
    name = record["type"] if module in ("builtins", "__main__") else f"{module}.{record['type']}"
    yield f"{name}: {record['message']}" if record["message"] else name
    yield from record["notes"]
    for number, member in enumerate(record["members"] or (), 1):
        yield f"  {number}:"
        yield from (f"    {line}" for line in _lines(member))
