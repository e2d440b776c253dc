"""Reading the files that loggers have written into the directories of runs."""

from __future__ import annotations

import csv
import json
import os
from typing import Any

from kernel_runs.errors import RunError
from kernel_runs.reports import Report

RESULT_FILE = "result.json"
PROGRESS_FILE = "progress.csv"
PARAMETERS_FILES = ("params.json", "param.json")


def read_results(directory: str) -> list[Report]:
    """Return all results in a run's directory: from result.json, else from progress.csv, else none.

    An incomplete last line, which a killed program may leave, is ignored. Raises RunError for a damaged file.
    """
    path = os.path.join(directory, RESULT_FILE)
    if os.path.exists(path):
        with open(path, "rb") as file:
            return [_object(line, path, "line") for line in file if line.endswith(b"\n") and line.strip()]
    path = os.path.join(directory, PROGRESS_FILE)
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8", newline="") as table:
                return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(table)]
        except (csv.Error, UnicodeError) as error:
            raise RunError(f"{path} is damaged: it is not a table ({error}). Repair or remove it") from error
    return []


def _object(text: bytes, path: str, part: str) -> dict[str, Any]:
    """Return the JSON object in a `part` of a file. Raises RunError that names the file and shows the part."""
    try:
        found = json.loads(text.decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it is a {type(found).__name__}")
    except (ValueError, RecursionError) as error:
        shown = text[:60].decode("utf-8", "backslashreplace").strip()
        raise RunError(
            f"{path} is damaged: it has a {part} that is not a JSON object ({error}): {shown!r}. Remove it; the rest "
            "can then be read"
        ) from error
    return found


def _value(text: str | None) -> Any:
    """Return a cell of a table as a number, a bool or a string; None for an empty one."""
    if not text:
        return None
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


def read_config(directory: str) -> dict[str, Any] | None:
    """Return the configuration in a run's directory, or None."""
    for name in PARAMETERS_FILES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                return _object(file.read(), path, "text")
    return None


def is_run(names: list[str]) -> bool:
    """Return whether a directory with these files is the directory of a run."""
    return any(name in names for name in (RESULT_FILE, PROGRESS_FILE, *PARAMETERS_FILES))
