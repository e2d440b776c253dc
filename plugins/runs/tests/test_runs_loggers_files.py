"""result.json, progress.csv, params: what is in them, and that a killed and resumed run leaves the same files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel_runs.errors import RunError
from kernel_runs.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
)
from kernel_runs.loggers.encoding import to_json
from kernel_runs.loggers.events import records
from kernel_runs.loggers.files import AppendedFiles
from kernel_runs.run import Run

LOGGERS = {"result.json": JsonLoggerCallback, "progress.csv": CSVLoggerCallback, "events": TBXLoggerCallback}
RESULTS = [
    {
        "score": 0.5 * i if i != 2 else float("nan"),
        "note": 'a "quoted",\nbroken line' if i % 2 else "plain",
        "nested": {"a": i, "b": {"c": np.float32(0.25)}},
        "weights": np.arange(4) * i,
        "training_iteration": i,
        "timestamp": 1_700_000_000 + i,
        "config": {"x": 1},
    }
    for i in range(1, 6)
]


def a_trial(folder: Path, **other: Any) -> Run:
    return Run("f", **{"config": {"x": 1}, "trial_id": "a826033a", "evaluated_params": {"x": 1, "layers/0": 16},
                         "local_dir": str(folder), "name": "f_a826033a", **other})  # fmt: skip


def log(logger: LoggerCallback, trial: Run, results: list[dict[str, Any]], batch: int = 2) -> None:
    """Log some results of a trial in batches, as the trial loop does."""
    for begin in range(0, len(results), batch):
        some = results[begin : begin + batch]
        logger.on_trial_results(begin, [trial], trial, some)
        trial.results += len(some)
        trial.last_result = some[-1]


def finish(logger: LoggerCallback, trial: Run) -> None:
    logger.on_trial_complete(9, [trial], trial)
    logger.on_experiment_end([trial])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_result_json_has_a_line_for_each_result(tmp_path: Path) -> None:
    logger, trial = JsonLoggerCallback(), a_trial(tmp_path)
    logger.on_trial_start(0, [trial], trial)
    log(logger, trial, RESULTS)
    lines = [json.loads(line) for line in (tmp_path / "f_a826033a/result.json").read_text().splitlines()]
    assert [line["training_iteration"] for line in lines] == [1, 2, 3, 4, 5]  # complete before the trial ends
    assert lines[0]["nested"] == {"a": 1, "b": {"c": 0.25}} and lines[2]["weights"] == [0, 3, 6, 9]
    assert lines[1]["score"] is None and lines[0]["config"] == {"x": 1}
    finish(logger, trial)


def test_parameters_are_written_again_when_they_change(tmp_path: Path) -> None:
    logger, trial = JsonLoggerCallback(), a_trial(tmp_path, config={"x": 1, "lock": threading.Lock(), "f": {"g": abs}})
    logger.on_trial_start(0, [trial], trial)
    assert json.loads((tmp_path / "f_a826033a/params.json").read_text())["x"] == 1
    pickled = pickle.loads((tmp_path / "f_a826033a/params.pkl").read_bytes())
    assert pickled["f"] == {"g": abs} and "lock" in pickled["lock"]  # what can't be pickled, as its text
    before = os.stat(tmp_path / "f_a826033a/params.json")
    logger.on_trial_start(1, [trial], trial)
    assert os.stat(tmp_path / "f_a826033a/params.json").st_ino == before.st_ino  # the same: not written again
    trial.config = {"x": 2}
    logger.on_trial_start(2, [trial], trial)
    assert json.loads((tmp_path / "f_a826033a/params.json").read_text()) == {"x": 2}
    assert pickle.loads((tmp_path / "f_a826033a/params.pkl").read_bytes()) == {"x": 2}


class Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


def test_every_value_becomes_json_that_any_reader_takes() -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    strict = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    for value, expected in [
        ({"a": float("nan"), "b": [np.nan]}, {"a": None, "b": [None]}),
        ({"a": float("inf"), "b": np.float64("-inf")}, {"a": math.inf, "b": -math.inf}),
        ({1: 2, None: 3, False: 4, (1, 2): 5}, {"1": 2, "null": 3, "false": 4, "(1, 2)": 5}),
        ({"a": np.int64(3), "b": np.bool_(True)}, {"a": 3, "b": True}),
        ({"c": np.array([[1.5, np.nan]])}, {"c": [[1.5, None]]}),
        ({"a": {3, 1}, "p": Path("x")}, {"a": [1, 3], "p": "x"}),
        ({"a": "\ud800"}, {"a": "\ud800"}),
    ]:  # fmt: skip
        assert json.loads(to_json(value), **strict) == expected
    assert "Odd" in json.loads(to_json({"a": Odd()}))["a"]
    assert json.loads(to_json(cycle))["self"]  # ends somewhere
    assert "\n" not in to_json({"a": "b\nc"})


def test_asking_for_a_checkpoint_now_and_then_is_no_late_column(tmp_path: Path) -> None:
    logger, trial = CSVLoggerCallback(), Run("f", trial_id="a826033a", name="f_a826033a", local_dir=str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for result in ({"a": 1}, {"a": 2, "should_checkpoint": True}, {"a": 3}):
            logger.on_trial_result(1, [trial], trial, result)
        logger.on_trial_complete(1, [trial], trial)
    assert (tmp_path / "f_a826033a/progress.csv").read_text() == "a\n1\n2\n3\n"


def test_progress_csv_is_a_table_of_flat_columns(tmp_path: Path) -> None:
    logger, trial = CSVLoggerCallback(), a_trial(tmp_path)
    logger.on_trial_start(0, [trial], trial)
    log(logger, trial, RESULTS)
    with open(tmp_path / "f_a826033a/progress.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = ["score", "note", "nested/a", "nested/b/c", "weights", "training_iteration", "timestamp"]
    assert list(rows[0]) == expected
    assert [row["nested/a"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert rows[0]["note"] == 'a "quoted",\nbroken line' and rows[1]["score"] == "nan"


def test_a_column_that_comes_later_is_reported_once(tmp_path: Path) -> None:
    logger, trial = CSVLoggerCallback(), a_trial(tmp_path)
    logger.on_trial_start(0, [trial], trial)
    logger.on_trial_results(0, [trial], trial, [{"a": 1, "b": 2}])
    with pytest.warns(UserWarning, match=r"f_a826033a reports 'c', which its first result did not have: progress.csv"):
        logger.on_trial_results(0, [trial], trial, [{"a": 3, "c": 4}, {"a": 5, "c": 6}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logger.on_trial_results(0, [trial], trial, [{"b": 8, "a": 7, "c": 6}])
    assert (tmp_path / "f_a826033a/progress.csv").read_text() == "a,b\n1,2\n3,\n5,\n7,8\n"


@pytest.mark.parametrize("kind", LOGGERS)
def test_wherever_a_run_was_killed_the_resumed_one_leaves_the_same_files(kind: str, tmp_path: Path) -> None:
    whole = a_trial(tmp_path / "whole")
    logger = LOGGERS[kind]()
    logger.on_trial_start(0, [whole], whole)
    log(logger, whole, RESULTS)
    finish(logger, whole)
    expected = contents(tmp_path / "whole")
    (name,) = [name for name in expected if kind in name]
    assert name.startswith("f_a826033a/")
    ends = [len(records_of(expected[name], kind, count)) for count in range(len(RESULTS) + 1)]
    for size in [*range(0, len(expected[name]), 17), *ends, len(expected[name])]:
        written = sum(end <= size for end in ends) - 1
        for remembered in range(written + 1):  # by the experiment, at the last time that it wrote its state down
            folder = tmp_path / f"{size}-{remembered}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(expected[name][:size])
            trial = a_trial(folder, results=remembered, last_result=RESULTS[remembered - 1] if remembered else {})
            logger = LOGGERS[kind]()
            logger.on_trial_start(0, [trial], trial)
            log(logger, trial, RESULTS[remembered:], batch=3)
            finish(logger, trial)
            assert contents(folder)[name] == expected[name], (size, remembered)


def records_of(text: bytes, kind: str, count: int) -> bytes:
    """Return the part of a file that has the records of some results."""
    if kind == "result.json":
        return b"".join(text.splitlines(keepends=True)[:count])
    if kind == "events":
        ends = [0, *(end for _, end in records(text))]
        return text[: ends[count + 1 if count else 0]]
    lines = list(csv.reader(io.StringIO(text.decode(), newline="")))[: count + 1 if count else 0]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().encode()


@pytest.mark.parametrize("kind", LOGGERS)
def test_a_trial_that_goes_on_after_a_pause_goes_on_with_its_file(kind: str, tmp_path: Path) -> None:
    files = {}
    for folder, pauses in (("whole", False), ("paused", True)):
        trial, logger = a_trial(tmp_path / folder), LOGGERS[kind]()
        logger.on_trial_start(0, [trial], trial)
        log(logger, trial, RESULTS[:3], batch=1)
        if pauses:
            logger.on_trial_start(1, [trial], trial)
        log(logger, trial, RESULTS[3:])
        if pauses:  # killed when all was written but the end
            logger.on_experiment_end([trial])
            logger = LOGGERS[kind]()
            logger.on_trial_start(2, [trial], trial)
        finish(logger, trial)
        files[folder] = contents(tmp_path / folder)
    assert files["whole"] == files["paused"]


@pytest.mark.parametrize("kind", LOGGERS)
def test_results_of_a_former_experiment_in_the_same_directory_go(kind: str, tmp_path: Path) -> None:
    for run in range(2):
        trial, logger = a_trial(tmp_path / "same"), LOGGERS[kind]()
        logger.on_trial_start(0, [trial], trial)
        log(logger, trial, RESULTS[run:])
        finish(logger, trial)
    trial, logger = a_trial(tmp_path / "new"), LOGGERS[kind]()
    logger.on_trial_start(0, [trial], trial)
    log(logger, trial, RESULTS[1:])
    finish(logger, trial)
    assert contents(tmp_path / "same") == contents(tmp_path / "new")


def test_more_files_than_may_be_open_are_written(tmp_path: Path) -> None:
    files = AppendedFiles(most_open=3)
    for round_ in range(3):
        for number in range(10):
            files.append(str(tmp_path / f"{number}/file"), f"{round_}\n".encode())
    assert len(files._open) == 3
    files.close_all()
    assert {path.read_text() for path in tmp_path.glob("*/file")} == {"0\n1\n2\n"}


def test_a_full_disk_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, trial = JsonLoggerCallback(), a_trial(tmp_path)
    logger.on_trial_start(0, [trial], trial)
    write, room = os.write, [30]

    def limited(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = write(descriptor, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", limited)
    with pytest.raises(RunError, match=r"can't write .*result.json: No space left on device.*resume it: incomplete"):
        logger.on_trial_results(0, [trial], trial, RESULTS)
    monkeypatch.undo()
    assert len((tmp_path / "f_a826033a/result.json").read_bytes()) == 30
    logger = JsonLoggerCallback()
    logger.on_trial_start(1, [trial], trial)
    logger.on_trial_results(1, [trial], trial, RESULTS)
    assert (tmp_path / "f_a826033a/result.json").read_text().count("\n") == 5


class Heard(LoggerCallback):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def log_trial_start(self, trial: Run) -> None:
        self.calls.append("start")

    def log_trial_restore(self, trial: Run) -> None:
        self.calls.append("restore")

    def log_trial_save(self, trial: Run) -> None:
        self.calls.append("save")

    def log_trial_result(self, iteration: int, trial: Run, result: dict[str, Any]) -> None:
        self.calls.append((iteration, result["score"]))

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        self.calls.append(f"failed={failed}")


def test_a_logger_of_ones_own_hears_of_each_trial(tmp_path: Path) -> None:
    logger, trial = Heard(), a_trial(tmp_path)
    logger.on_trial_start(0, [trial], trial)
    logger.on_trial_results(3, [trial], trial, [{"score": 1}, {"score": 2}])
    logger.on_trial_save(3, [trial], trial)
    logger.on_trial_restore(3, [trial], trial)
    logger.on_trial_complete(4, [trial], trial)
    logger.on_trial_error(4, [trial], trial)
    assert logger.calls == ["start", (3, 1), (3, 2), "save", "restore", "failed=False", "failed=True"]
