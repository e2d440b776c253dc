"""result.json: the results of a trial, one JSON object a line; params.json and params.pkl: its configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import cloudpickle

from kernel_runs.loggers.encoding import text_of, to_json
from kernel_runs.loggers.files import write_whole
from kernel_runs.loggers.trial_file import TrialFile, TrialFileLogger
from kernel_runs.reports import Report
from kernel_runs.run import Run

RESULT_FILE = "result.json"
PARAMETERS_FILE = "params.json"
PICKLED_PARAMETERS_FILE = "params.pkl"


class JsonLoggerCallback(TrialFileLogger[TrialFile]):
    """Writes `result.json`, and `params.json` and `params.pkl` for each new configuration of a trial.

    Values that JSON can't represent are written as text, NaN as `null`, infinity as `1e999`. Values that can't be
    pickled are pickled as text.
    """

    says_done = True

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[Run, str] = {}

    def file_of(self, trial: Run) -> TrialFile:
        return TrialFile(os.path.join(trial.logdir, RESULT_FILE))

    def encode(self, trial: Run, file: TrialFile, results: Sequence[Report]) -> bytes:
        return "".join([to_json(result) + "\n" for result in results]).encode()

    def end_of(self, file: TrialFile, records: int) -> tuple[int, int]:
        found = size = 0
        with open(file.path, "rb") as lines:
            for line in lines:
                if found == records or not line.endswith(b"\n"):
                    break
                found += 1
                size += len(line)
        return found, size

    def log_trial_start(self, trial: Run) -> None:
        super().log_trial_start(trial)
        self.update_config(trial, trial.config)

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        super().log_trial_end(trial, failed)
        self._written.pop(trial, None)

    def update_config(self, trial: Run, config: dict[str, Any]) -> None:
        """Write a trial's configuration if it has changed."""
        text = to_json(config, indent=2, sort_keys=True)
        if self._written.get(trial) != text:
            write_whole(os.path.join(trial.logdir, PICKLED_PARAMETERS_FILE), _pickled(config))
            write_whole(os.path.join(trial.logdir, PARAMETERS_FILE), text.encode())
            self._written[trial] = text


def _pickled(config: dict[str, Any]) -> bytes:
    """Return a pickled configuration, in which values that can't be pickled are replaced by their text."""
    try:
        data: bytes = cloudpickle.dumps(config)
    except Exception:  # pickling runs methods of the values: it may raise anything
        data = cloudpickle.dumps({key: _picklable(value) for key, value in config.items()})
    return data


def _picklable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _picklable(inner) for key, inner in value.items()}
    try:
        cloudpickle.dumps(value)
    except Exception:
        return text_of(value)
    return value
