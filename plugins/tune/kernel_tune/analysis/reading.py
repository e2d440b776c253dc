"""Reading trials from their directories, and the state of an experiment from its file."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from kernel_runs.raised import ERROR_FILE
from kernel_runs.reports import CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID
from kernel_runs.results.reading import is_run, read_config, read_results
from kernel_tune.trial import Status, Trial

STATE_FILE = "experiment_state.json"
_NAME = re.compile(r"^(?P<trainable>.+?)_(?P<id>[0-9a-f]{8})(_.*)?$")


def read_trial(directory: str) -> Trial:
    """Return the trial of a directory, from the files of its loggers. Its status is TERMINATED, ERROR or PENDING."""
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
    """Return the state that an experiment has written into its directory; {} if it can't be read."""
    try:
        with open(os.path.join(directory, STATE_FILE), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _described(trial: Trial, entry: dict[str, Any]) -> Trial:
    """Add what the state of an experiment says about a trial, and return the trial."""
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
    """Return the trials in a directory and below it, of each experiment in the order in which they were made."""
    found: list[Trial] = []
    entries: dict[str, dict[str, Any]] = {}
    for folder, below, names in os.walk(directory):
        if STATE_FILE in names:
            for entry in read_state(folder).get("trials", []):
                entries[os.path.join(folder, os.path.basename(entry["logdir"]))] = entry
        if is_run(names):
            found.append(_described(read_trial(folder), entries.get(folder, {})))
            below.clear()  # checkpoints, and files of the trial itself
        below.sort()
    return sorted(found, key=_order)


def _order(trial: Trial) -> tuple[str, int, str]:
    """Order trials by their number, if it is known, and by their names."""
    number = trial.experiment_tag.partition("_")[0]
    return trial.local_dir, int(number) if number.isdigit() else -1, trial.name
