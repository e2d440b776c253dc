"""Results read back from a run's directory: what loggers wrote, its checkpoints, its error."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from kernel_runs import CheckpointError, OptionalDependencyError, Result, Run, RunError, TrialError
from kernel_runs.loggers import CSVLoggerCallback, JsonLoggerCallback
from kernel_runs.raised import carried, error_in, rebuilt, text_of
from kernel_runs.results.comparing import best_of, check, number, score
from kernel_runs.results.reading import is_run, read_config, read_results


def a_run(folder: Path, losses: list[float], logger: Any = None, done: bool = True) -> Path:
    """Log a run with a checkpoint after every second result; return its directory."""
    run, logger = Run("f", {"x": 1}, local_dir=str(folder), name="run"), logger or JsonLoggerCallback()
    logger.on_trial_start(0, [run], run)
    for step, loss in enumerate(losses, start=1):
        result = {"loss": loss, "training_iteration": step, "inner": {"a": step}, "done": done and step == len(losses)}
        logger.on_trial_result(0, [run], run, result)
        run.last_result, run.results = result, step
        if step % 2 == 0:
            (folder / "run" / f"checkpoint_{step:06d}").mkdir()
    logger.on_trial_complete(0, [run], run)
    return folder / "run"


def test_a_result_has_all_that_came_of_a_run(tmp_path: Path) -> None:
    result = Result.from_path(a_run(tmp_path, [3.0, 1.0, 2.0, 4.0, 5.0]))
    assert result.metrics["loss"] == 5.0 and result.config == {"x": 1} and result.error is None
    assert result.path == str(tmp_path / "run") and [each["loss"] for each in result.history] == [3, 1, 2, 4, 5]
    assert [(Path(each.path).name, metrics["loss"]) for each, metrics in result.best_checkpoints] == [
        ("checkpoint_000002", 1.0),
        ("checkpoint_000004", 4.0),
    ]
    assert result.checkpoint.path.endswith("checkpoint_000004")
    assert result.get_best_checkpoint("loss", "min").path.endswith("checkpoint_000002")
    assert result.get_best_checkpoint("inner/a", "max").path.endswith("checkpoint_000004")
    assert list(result.metrics_dataframe["inner/a"]) == [1, 2, 3, 4, 5]
    assert repr(result).startswith("Result(metrics={'loss': 5.0, 'inner': {'a': 5}}, path=") and "error" not in repr(
        result
    )


def test_which_checkpoint_is_best_must_be_known(tmp_path: Path) -> None:
    result = Result.from_path(a_run(tmp_path, [3.0, 1.0]))
    with pytest.raises(
        CheckpointError, match=r"no checkpoint of .*/run has the metric 'los': its checkpoints have inn"
    ):
        result.get_best_checkpoint("los", "min")
    with pytest.raises(ValueError, match="mode is 'best': it is 'min' or 'max'"):
        result.get_best_checkpoint("loss", "best")
    with pytest.raises(CheckpointError, match="has the metric 'loss': it has no checkpoints"):
        Result({"loss": 1}, path="/r").get_best_checkpoint("loss", "min")
    assert Result({"loss": 1, "config": {"y": 2}}, path="/r").history == [{"loss": 1, "config": {"y": 2}}]
    assert Result({"config": {"y": 2}}).config == {"y": 2} and Result({}).config == {} and Result({}).history == []


def test_a_table_is_read_where_there_are_no_lines(tmp_path: Path) -> None:
    folder = a_run(tmp_path, [3.0, 1.5], CSVLoggerCallback())
    first, last = read_results(str(folder))
    assert first == {"loss": 3.0, "training_iteration": 1, "inner/a": 1, "done": False} and last["loss"] == 1.5
    assert Result.from_path(folder).metrics["done"] is True
    (folder / "params.json").write_text('{"x": 5}')
    assert Result.from_path(folder).config == {"x": 5} == read_config(str(folder))
    assert read_results(str(tmp_path)) == [] and read_config(str(tmp_path)) is None


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RunError, match=r"is not the directory of a run: it has neither result.json nor"):
            Result.from_path(path)
    assert is_run(["a", "param.json"]) and not is_run(["checkpoint_000001"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [(b"[1]\n", "it is a list"), (b"broken\n", "Expecting value"), (b"\xff\n", "can't decode")],
)
def test_a_damaged_line_is_named_and_a_half_one_is_none(tmp_path: Path, text: bytes, reason: str) -> None:
    folder = a_run(tmp_path, [3.0])
    with open(folder / "result.json", "ab") as file:
        file.write(b'{"loss": 4')
    assert len(read_results(str(folder))) == 1
    (folder / "result.json").write_bytes(text)
    with pytest.raises(RunError, match=rf"damaged: it has a line that is not a JSON object \(.*{reason}"):
        read_results(str(folder))
    (folder / "params.json").write_bytes(text)
    with pytest.raises(RunError, match="params.json is damaged: it has a text that is not a JSON object"):
        read_config(str(folder))
    (folder / "result.json").unlink()
    (folder / "progress.csv").write_bytes(b"\xff\xfe\n")
    with pytest.raises(RunError, match="progress.csv is damaged: it is not a table"):
        read_results(str(folder))


def test_a_run_that_failed_has_its_error_until_it_ends_well(tmp_path: Path) -> None:
    folder = a_run(tmp_path, [3.0], done=False)
    assert error_in(str(folder)) is None and Result.from_path(folder).error is None
    (folder / "error.txt").write_text("Traceback: it failed\n")
    error = Result.from_path(folder).error
    assert type(error) is TrialError and str(error) == "Traceback: it failed" and error.cause is None
    assert vars(error) == {}
    (folder / "error.pkl").write_bytes(carried(FileNotFoundError(2, "not there", "/a")))
    error = Result.from_path(folder).error
    assert isinstance(error, TrialError) and isinstance(error, FileNotFoundError) and error.filename == "/a"
    assert repr(error.cause) == "FileNotFoundError(2, 'not there')" and "error=TrialError[" in repr(
        Result.from_path(folder)
    )
    (folder / "error.txt").write_text("")
    assert str(error_in(str(folder))) == f"{folder} failed"
    with open(folder / "result.json", "a") as file:
        file.write(json.dumps({"loss": 1, "done": True}) + "\n")
    assert Result.from_path(folder).error is None


class Odd(Exception):
    """An error with an `__init__` of its own and something that can't be pickled."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.second, self.lock = second, (each for each in ())


def test_an_error_travels_as_what_it_is() -> None:
    error = rebuilt("the traceback", carried(Odd(1, 2)))
    assert isinstance(error, TrialError) and isinstance(error, Odd) and str(error) == "the traceback"
    assert error.args == ("1 and 2",) and error.second == 2 and not hasattr(error, "lock")
    assert type(error.cause) is Odd and error.cause.args == ("1 and 2",)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == "the traceback"
    assert type(rebuilt("no more", b"")) is TrialError and type(rebuilt("damaged", b"\x80")) is TrialError
    assert type(rebuilt("not an Exception", carried(KeyboardInterrupt()))) is TrialError

    assert type(error).__module__ == "kernel_runs.errors" and type(error).__name__ == "TrialError[Odd]"
    assert type(error).__doc__ == "A trial raised Odd."


class Forgetful:
    """Can be pickled, and not read back."""

    def __reduce__(self) -> Any:
        return (int, ("no number",))


def test_what_can_not_be_read_back_stays_behind() -> None:
    error = ValueError("a")
    error.kept, error.forgotten = 1, Forgetful()  # type: ignore[attr-defined]
    cause = rebuilt("text", carried(error)).cause
    assert isinstance(cause, ValueError) and vars(cause) == {"kept": 1}
    assert carried(ValueError(Forgetful())) == b"" == carried(ValueError(each for each in ()))


def test_the_text_of_an_error_begins_with_the_users_line() -> None:
    def users() -> None:
        raise ValueError("mine")

    namespace: dict[str, Any] = {"__name__": "kernel_library.part", "users": users}
    exec(compile("def library():\n    users()", "library.py", "exec"), namespace)
    try:
        namespace["library"]()
    except ValueError as error:
        whole, cut = text_of(error), text_of(error.with_traceback(error.__traceback__.tb_next), "kernel_library")  # type: ignore[union-attr]
    assert "library.py" in whole and "library.py" not in cut
    assert cut.startswith("Traceback (most recent call last):\n") and cut.endswith("ValueError: mine")


def test_scores_by_scope() -> None:
    history = [{"a": {"b": value}} for value in (1.0, 9.0, math.nan, 2.0)]
    scores = {
        scope: score(history, "a/b", "max", scope) for scope in ("last", "all", "avg", "last-5-avg", "last-10-avg")
    }
    assert scores == {"last": 2.0, "all": 9.0, "avg": 4.0, "last-5-avg": 4.0, "last-10-avg": 4.0}
    assert score(history, "a/b", "min", "all") == 1.0 and score(history, "c", "max", "all") is None
    assert score(history[:3], "a/b", "max", "last") is None and score([], "a/b", "max", "last") is None
    assert score([{"c": float(step)} for step in range(10)], "c", "max", "last-5-avg") == 7.0
    assert number(math.inf) is None and number(math.inf, finite=False) == math.inf and number(True) is None
    assert number("1") is None and number(2) == 2.0
    assert best_of([("a", 1.0), ("b", None), ("c", 3.0), ("d", 3.0)], "max") == "c"
    assert best_of([("a", 1.0), ("b", None), ("c", 3.0)], "min") == "a" and best_of([("b", None)], "min") is None
    with pytest.raises(ValueError, match="scope is 'first': it is one of 'last', 'all', 'avg'"):
        check("max", "first")
    check("min", "last-5-avg")


def test_without_pandas_only_tables_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Result.from_path(a_run(tmp_path, [3.0]))
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(OptionalDependencyError, match=r"a table of results needs the library 'pandas'"):
        _ = result.metrics_dataframe
    assert result.history[0]["loss"] == 3.0
