"""What loggers have left in the directories of runs, read back."""

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
    """Return all results in a run's directory: of result.json, otherwise progress.csv, otherwise none.

    A last line of which a part is missing, as a killed program leaves it, is left out. Raises RunError for a damaged
    file.
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
            raise RunError(f"{path} is damaged, it is no table ({error}): take out what is, or the file") from error
    return []


def _object(text: bytes, path: str, part: str) -> dict[str, Any]:
    """Return the JSON object that a `part` of a file is. Raises RunError that names the file and shows the part."""
    try:
        found = json.loads(text.decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it is a {type(found).__name__}")
    except (ValueError, RecursionError) as error:
        shown = text[:60].decode("utf-8", "backslashreplace").strip()
        raise RunError(
            f"{path} is damaged: it has a {part} that is no JSON object ({error}): {shown!r}. Take it out; the rest "
            "can then be read"
        ) from error
    return found


def _value(text: str | None) -> Any:
    """Return a cell of a table as the number or the text that it was."""
    if not text:
        return None
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


def read_config(directory: str) -> dict[str, Any] | None:
    """Return the configuration in a run's directory; None where there is none."""
    for name in PARAMETERS_FILES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                return _object(file.read(), path, "text")
    return None


def is_run(names: list[str]) -> bool:
    """Return whether a directory with these files is one of a run."""
    return any(name in names for name in (RESULT_FILE, PROGRESS_FILE, *PARAMETERS_FILES))
