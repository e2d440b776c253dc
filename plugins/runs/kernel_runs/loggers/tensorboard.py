"""Event files for TensorBoard: one event a result, histograms of arrays, and the HParams tab."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernel_runs.loggers.events import (
    ScalarsTemplate,
    histogram_value,
    record,
    records,
    summary_event,
    version_event,
)
from kernel_runs.loggers.flat import flat_of
from kernel_runs.loggers.hparams import EXPERIMENT_TAG, hparams_summary
from kernel_runs.loggers.trial_file import TrialFile, TrialFileLogger
from kernel_runs.reports import (
    AUTO_KEYS,
    DONE,
    PID,
    TIME_TOTAL_S,
    TIMESTAMP,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    Report,
    flatten,
)
from kernel_runs.run import Run

EVENTS_PREFIX = "events.out.tfevents."
_NOT_SHOWN = {PID, TIMESTAMP, TIME_TOTAL_S, TRAINING_ITERATION, DONE}
_NUMBERS = (int, float, np.number, np.bool_)
_SEVERAL = (list, tuple, np.ndarray)


class EventFile(TrialFile):
    """An event file, and the times, step and tags for the event that is written when the trial ends."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.begun: float | None = None
        self.now = 0.0
        self.step = 0
        self.tags: tuple[str, ...] = ()


class TBXLoggerCallback(TrialFileLogger[EventFile]):
    """Writes event files that TensorBoard can show while a trial runs. It needs no library.

    Nested dicts are flattened: `{"a": {"b": 1}}` is `a/b`. Numbers become scalars, lists and arrays histograms. The
    step is `timesteps_total` if it is reported and not 0, otherwise `training_iteration`. When a trial ends, its chosen
    hyperparameters and its own metrics are added for the HParams tab. `prefix` is put before each tag. `clock` returns
    the time of results without a `timestamp`, in seconds since 1970.
    """

    def __init__(self, prefix: str = "", clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._prefix = prefix
        self._clock = clock
        self._templates: dict[tuple[str, ...], ScalarsTemplate] = {}

    def file_of(self, trial: Run) -> EventFile:
        return EventFile(os.path.join(trial.logdir, f"{EVENTS_PREFIX}{trial.trial_id or trial.name or 'trial'}"))

    def encode(self, trial: Run, file: EventFile, results: Sequence[Report]) -> bytes:
        parts = []
        for number, result in enumerate(results, start=file.records + 1):
            file.now = self._time_of(result)
            file.step = int(result.get(TIMESTEPS_TOTAL) or result.get(TRAINING_ITERATION) or number)
            if number == 1:
                parts.append(record(version_event(file.now)))
            if file.begun is None:
                file.begun = file.now
            parts.append(record(summary_event(file.now, file.step, self._summary(file, flat_of(result)))))
        return b"".join(parts)

    def end(self, trial: Run, file: EventFile, failed: bool) -> bytes:
        if not file.records or not trial.evaluated_params:
            return b""
        if not file.tags:  # all of it was written before the experiment was resumed
            self._summary(file, flat_of(trial.last_result))
            file.now = self._time_of(trial.last_result)
            file.step = int(
                trial.last_result.get(TIMESTEPS_TOTAL) or trial.last_result.get(TRAINING_ITERATION) or file.records
            )
        chosen = flatten(trial.evaluated_params)
        begun = file.now if file.begun is None else file.begun
        shown = [tag for tag in file.tags if tag not in AUTO_KEYS] or file.tags
        tags = [self._prefix + tag for tag in shown]
        summary = hparams_summary(chosen, tags, str(trial), begun, file.now, failed)
        return record(summary_event(file.now, file.step, summary))

    def end_of(self, file: EventFile, records_wanted: int) -> tuple[int, int]:
        with open(file.path, "rb") as opened:
            text = opened.read()
        found = size = 0
        for number, (data, end) in enumerate(records(text)):
            if number and (found == records_wanted or EXPERIMENT_TAG.encode() in data):
                break
            if number == 0:
                file.begun = _wall_time(data)
            found += bool(number)
            size = end
        if not found:
            file.begun, size = None, 0
        return found, size

    def _summary(self, file: EventFile, flat: dict[str, Any]) -> bytes:
        tags, values, histograms = [], [], []
        for key, value in flat.items():
            if key in _NOT_SHOWN:
                continue
            kind = type(value)
            if kind is float or kind is int or kind is bool or isinstance(value, _NUMBERS):
                tags.append(key)
                values.append(value)
            elif getattr(value, "ndim", None) == 0:  # a tensor, or an array of numpy, with a single number
                number = _number(value)
                if number is not None:
                    tags.append(key)
                    values.append(number)
            elif isinstance(value, _SEVERAL):
                histograms.append((key, value))
        file.tags = names = tuple(tags)
        template = self._templates.get(names)
        if template is None:
            if len(self._templates) > 1000:  # keys that never come again
                self._templates.clear()
            template = self._templates[names] = ScalarsTemplate([self._prefix + tag for tag in tags])
        summary = template.pack(values)
        for key, value in histograms:
            summary += histogram_value(self._prefix + key, value) or b""
        return summary

    def _time_of(self, result: Report) -> float:
        value = result.get(TIMESTAMP)
        return float(value) if isinstance(value, (int, float)) else self._clock()


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return None


def _wall_time(event: bytes) -> float | None:
    """Return the time of an event that this module has written: it comes first in the event."""
    return float(np.frombuffer(event, "<f8", 1, 1)[0]) if event[:1] == b"\x09" and len(event) >= 9 else None
