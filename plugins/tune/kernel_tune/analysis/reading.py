"""What loggers have left in the directories of trials, read back."""

from __future__ import annotations

import csv
import json
import os
import re
from typing import Any

from kernel_tune.errors import TuneError
from kernel_tune.raised import ERROR_FILE
from kernel_tune.result import CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID, Result
from kernel_tune.trial import Status, Trial

RESULT_FILE = "result.json"
PROGRESS_FILE = "progress.csv"
PARAMETERS_FILES = ("params.json", "param.json")
STATE_FILE = "experiment_state.json"
_NAME = re.compile(r"^(?P<trainable>.+?)_(?P<id>[0-9a-f]{8})(_.*)?$")


def read_results(directory: str) -> list[Result]:
    """Return all results in a trial's directory: of result.json, otherwise progress.csv, otherwise none.

    A last line of which a part is missing, as a killed program leaves it, is left out. Raises TuneError for a damaged
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
            raise TuneError(f"{path} is damaged, it is no table ({error}): take out what is, or the file") from error
    return []


def _object(text: bytes, path: str, part: str) -> dict[str, Any]:
    """Return the JSON object that a `part` of a file is. Raises TuneError that names the file and shows the part."""
    try:
        found = json.loads(text.decode("utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it is a {type(found).__name__}")
    except (ValueError, RecursionError) as error:
        shown = text[:60].decode("utf-8", "backslashreplace").strip()
        raise TuneError(
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
    """Return the configuration in a trial's directory; None where there is none."""
    for name in PARAMETERS_FILES:
        path = os.path.join(directory, name)
        if os.path.exists(path):
            with open(path, "rb") as file:
                return _object(file.read(), path, "text")
    return None


def is_trial(names: list[str]) -> bool:
    """Return whether a directory with these files is one of a trial."""
    return any(name in names for name in (RESULT_FILE, PROGRESS_FILE, *PARAMETERS_FILES))


def read_trial(directory: str) -> Trial:
    """Return the trial whose directory it is, as far as its files tell: not whether it runs, is paused or waits."""
    results = read_results(directory)
    last = results[-1] if results else {}
    config = read_config(directory) or last.get(CONFIG) or {}
    folder, name = os.path.split(directory)
    parts = _NAME.match(name)
    error_file = os.path.join(directory, ERROR_FILE)
    trial = Trial(
        parts["trainable"] if parts else name,
        config=config,
        trial_id=str(last.get(TRIAL_ID) or (parts["id"] if parts else name)),
        experiment_tag=str(last.get(EXPERIMENT_TAG, "")),
        local_dir=folder,
        name=name,
        last_result=last,
        results=len(results),
        status=Status.TERMINATED if last.get(DONE) is True else Status.PENDING,
    )
    if os.path.exists(error_file) and last.get(DONE) is not True:
        trial.status, trial.error_file = Status.ERROR, error_file
    return trial


def read_state(directory: str) -> dict[str, Any]:
    """Return what an experiment has written down of itself in its directory; {} where there is nothing to read."""
    try:
        with open(os.path.join(directory, STATE_FILE), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _described(trial: Trial, entry: dict[str, Any]) -> Trial:
    """Return a trial with what its experiment says of it."""
    trial.trial_id = str(entry.get("trial_id") or trial.trial_id)
    trial.trainable_name = str(entry.get("trainable_name") or trial.trainable_name)
    trial.experiment_tag = str(entry.get("experiment_tag") or trial.experiment_tag)
    trial.evaluated_params = entry.get("evaluated_params") or {}
    trial.last_result = trial.last_result or entry.get("last_result") or {}
    trial.config = trial.config or entry.get("config") or {}
    if entry.get("status") in {str(status) for status in Status}:
        trial.status = Status(entry["status"])
    if entry.get("error_file") or trial.status is Status.ERROR:
        trial.error_file = os.path.join(trial.logdir, ERROR_FILE)
    return trial


def find_trials(directory: str) -> list[Trial]:
    """Return the trials in a directory and all below it, of each experiment in the order in which they were made."""
    found: list[Trial] = []
    entries: dict[str, dict[str, Any]] = {}
    for folder, below, names in os.walk(directory):
        if STATE_FILE in names:
            for entry in read_state(folder).get("trials", []):
                entries[os.path.join(folder, os.path.basename(entry["logdir"]))] = entry
        if is_trial(names):
            found.append(_described(read_trial(folder), entries.get(folder, {})))
            below.clear()  # checkpoints and what a trial wrote itself
        below.sort()
    return sorted(found, key=_order)


def _order(trial: Trial) -> tuple[str, int, str]:
    """Order trials as they were made, where that is known, and by their names."""
    number = trial.experiment_tag.partition("_")[0]
    return trial.local_dir, int(number) if number.isdigit() else -1, trial.name
