"""The rows of the tables, from the files of experiments and trials."""

from __future__ import annotations

import json
import os
from typing import Any

from kernel_runs.reports import AUTO_KEYS, TIME_TOTAL_S, TRAINING_ITERATION
from kernel_tune.analysis.reading import STATE_FILE, find_trials
from kernel_tune.errors import TuneError
from kernel_tune.trial import Trial

NOTE_FILE = "note.txt"

TRIAL_COLUMNS = ("trainable_name", "experiment_tag", "trial_id", "status", "last_update_time")
RESULT_COLUMNS = (TRAINING_ITERATION, TIME_TOTAL_S)


def trial_rows(directory: str) -> list[dict[str, Any]]:
    """Return a row for each trial of an experiment: its attributes, configuration and last result."""
    path = os.path.abspath(os.path.expanduser(directory))
    if not os.path.isdir(path):
        raise TuneError(f"there is no directory {directory}: give that of an experiment")
    trials = find_trials(path)
    if not trials:
        raise TuneError(f"{directory} has no trials: give the directory of an experiment, or of several")
    return [_row(trial) for trial in trials]


def _row(trial: Trial) -> dict[str, Any]:
    last = trial.last_result
    row: dict[str, Any] = {
        "trainable_name": trial.trainable_name,
        "experiment_tag": trial.experiment_tag or last.get("experiment_tag", ""),
        "trial_id": trial.trial_id,
        "status": str(trial.status),
        "last_update_time": last.get("date"),
    }
    row |= {f"config/{name}": value for name, value in trial.config.items() if isinstance(value, (int, float, str))}
    row |= {name: last.get(name) for name in RESULT_COLUMNS}
    row |= {
        name: value
        for name, value in last.items()
        if name not in AUTO_KEYS and name not in row and isinstance(value, (int, float, str))
    }
    return row


def experiment_rows(directory: str) -> list[dict[str, Any]]:
    """Return a row for each experiment in a directory."""
    path = os.path.abspath(os.path.expanduser(directory))
    if not os.path.isdir(path):
        raise TuneError(f"there is no directory {directory}: give the one that experiments are in")
    rows = []
    for name in sorted(os.listdir(path)):
        state_path = os.path.join(path, name, STATE_FILE)
        if not os.path.exists(state_path):
            continue
        with open(state_path, encoding="utf-8") as file:
            state = json.load(file)
        statuses = [trial["status"] for trial in state["trials"]]
        rows.append(
            {
                "name": name,
                "total_trials": len(statuses),
                **{f"{status.lower()}_trials": statuses.count(status) for status in sorted(set(statuses))},
                "seconds": round(state["runner_data"]["seconds"], 1),
                "finished": str(state["runner_data"]["is_finished"]).lower(),
                "note": _note(os.path.join(path, name)),
            }
        )
    if not rows:
        raise TuneError(f"{directory} has no experiments: no directory in it has an {STATE_FILE}")
    return rows


def _note(path: str) -> str:
    try:
        with open(os.path.join(path, NOTE_FILE), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
