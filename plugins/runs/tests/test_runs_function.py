"""Functions as trainables: what they may be, what they report, and how they are told to stop."""

from __future__ import annotations

import functools
import queue
import threading
from pathlib import Path
from typing import Any

import pytest

import kernel_runs
from kernel_runs import Checkpoint, CheckpointError, RunError, session, wrap_function
from kernel_runs.place import Place
from kernel_runs.testing.running_trial import running_trial
from kernel_runs.trainable.function import FunctionTrainable, StatusReporter
from kernel_runs.trainable.function_session import FunctionSession, checkpoint_dir

SECONDS = 120.0


def reports_of(function: Any, config: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return all that a function reports, as a trainable outside of an experiment."""
    trainable = wrap_function(function)(config or {})
    found = []
    while not (result := trainable.train())["done"]:
        found.append(result)
    return found


def by_report(config: dict[str, Any]) -> None:
    for step in range(3):
        kernel_runs.report({"step": step, "x": config["x"]})


def by_reporter(config: dict[str, Any], reporter: Any) -> None:
    for step in range(3):
        reporter(step=step, x=config["x"])


def by_yield(config: dict[str, Any]) -> Any:
    for step in range(3):
        yield {"step": step, "x": config["x"]}


@pytest.mark.parametrize("function", [by_report, by_reporter, by_yield])
def test_a_function_reports_in_whichever_way(function: Any) -> None:
    found = reports_of(function, {"x": 7})
    assert [(each["step"], each["x"], each["training_iteration"]) for each in found] == [
        (0, 7, 1),
        (1, 7, 2),
        (2, 7, 3),
    ]


def test_what_is_returned_is_the_last_report() -> None:
    assert [each["a"] for each in reports_of(lambda config: {"a": 1})] == [1]
    assert [each["_metric"] for each in reports_of(lambda: 2.5)] == [2.5]
    assert reports_of(lambda config: None) == [] == reports_of(lambda config: {})
    with pytest.raises(TypeError, match=r"returns or yields a dict of metrics, or one number, and not \['loss'\]"):
        reports_of(lambda config: ["loss"])


def test_what_it_raises_is_raised_and_begins_in_the_function() -> None:
    def fails(config: dict[str, Any]) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        reports_of(fails)
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "fails" and "_run" not in names and "_call" not in names


@pytest.mark.parametrize("strict", [True, False])
def test_it_waits_for_the_decision_where_that_is_strict(strict: bool) -> None:
    steps: list[int] = []

    def goes(config: dict[str, Any]) -> None:
        for step in range(3):
            steps.append(step)
            kernel_runs.report(step=step)

    one = wrap_function(goes)({})
    one.be_strict(strict)
    assert not one.has_more
    first = one.next_report(SECONDS)
    assert first is not None and first[0]["step"] == 0 and first[1] is None
    if strict:
        assert steps == [0] and not one.has_more
    assert [one.next_report(SECONDS)[0]["step"] for _ in range(2)] == [1, 2]  # type: ignore[index]
    assert one.next_report(SECONDS) is None and one.is_over


def test_a_checkpoint_is_kept_under_the_iteration_and_found_again(tmp_path: Path) -> None:
    def saves(config: dict[str, Any]) -> None:
        before = kernel_runs.get_checkpoint()
        start = before.to_dict()["step"] if before is not None else 0
        for step in range(start + 1, start + 3):
            kernel_runs.report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
            assert kernel_runs.get_checkpoint().to_dict() == {"step": step}

    one = wrap_function(saves)({})
    reports = [one.next_report(SECONDS) for _ in range(2)]
    assert [report[0]["step"] for report in reports if report] == [1, 2]
    paths = [report[1] for report in reports if report]
    assert [Path(str(path)).name for path in paths] == ["checkpoint_000001", "checkpoint_000002"]
    again = wrap_function(saves)({})
    again.start_from(Checkpoint(str(paths[1])))
    again.count_from(2)
    report = again.next_report(SECONDS)
    assert report is not None and report[0]["step"] == 3 and report[0]["training_iteration"] == 3


def test_what_is_at_an_address_is_fetched(tmp_path: Path) -> None:
    uri = Checkpoint.from_dict({"a": 1}).to_uri("memory://functions/one")
    with running_trial(tmp_path) as trial:
        kernel_runs.report({"a": 1}, checkpoint=Checkpoint.from_uri(uri))
        [(_, checkpoint)] = trial.reports()
    assert checkpoint is not None and checkpoint.path == str(tmp_path / "checkpoint_000001")
    assert checkpoint.to_dict() == {"a": 1}


def test_the_older_way_of_saving(tmp_path: Path) -> None:
    with running_trial(tmp_path) as trial:
        for text in ("first", "second"):
            with checkpoint_dir(step=5) as directory:
                Path(directory, "state").write_text(text)
        kernel_runs.report(loss=1)
        kernel_runs.report(loss=2)
        first, second = trial.reports()
    assert first[1] is not None and Path(first[1].path, "state").read_text() == "second" and second[1] is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_000001"], "the first was given up"


def test_the_older_way_of_saving_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_warned", {"checkpoint_dir()"})
    with checkpoint_dir(step=1) as directory:
        Path(directory, "state").touch()

    class Other:
        place = Place()

    other: Any = Other()
    session.enter(other)
    try:
        with pytest.raises(RunError, match=r"checkpoint_dir\(\) is for function trainables: give report\(\) a"):
            checkpoint_dir(step=1).__enter__()
    finally:
        session.leave(other)


def test_a_function_gets_the_directory_of_the_checkpoint_where_it_takes_one() -> None:
    seen: list[Any] = []

    def takes(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        seen.append(checkpoint_dir)

    for start in (None, Checkpoint("/kept")):
        one = wrap_function(takes)({})
        if start is not None:
            one.start_from(start)
        one.train()
    assert seen == [None, "/kept"]


def test_it_ends_when_it_is_told_to_stop() -> None:
    ended = threading.Event()

    def endless(config: dict[str, Any]) -> None:
        try:
            while True:
                kernel_runs.report(a=1)
        finally:
            ended.set()

    one = wrap_function(endless)({})
    one.be_strict(True)
    assert one.next_report(SECONDS) is not None
    one.cleanup()
    assert ended.wait(SECONDS)
    with running_trial("/tmp") as trial, pytest.raises(StopIteration):
        trial.stop()
        kernel_runs.report(a=1)


def ends(config: dict[str, Any]) -> Any:
    try:
        while True:
            yield {"a": 1}
    finally:
        config["ended"].set()


def goes_on(config: dict[str, Any]) -> Any:
    while not config["over"].is_set():
        try:
            yield {"a": 1}
        except GeneratorExit:
            config["ended"].set()


def fails_at_the_end(config: dict[str, Any]) -> Any:
    try:
        yield {"a": 1}
    except GeneratorExit:
        raise RuntimeError("no end for me") from None


@pytest.mark.parametrize("function", [ends, goes_on])
def test_a_generator_cleans_up_when_it_is_told_to_stop(function: Any, caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()
    one = wrap_function(function)({"ended": ended, "over": (over := threading.Event())})
    one.be_strict(True)
    assert one.next_report(SECONDS) is not None
    one.cleanup()
    assert ended.is_set() and one.is_over
    said = "generator goes_on continued to yield after its trial was stopped"
    assert [record.getMessage() for record in caplog.records] == ([said] if function is goes_on else [])
    over.set()  # so that it lets itself be forgotten


def test_a_generator_that_fails_as_it_ends_is_a_failure() -> None:
    one = wrap_function(fails_at_the_end)({})
    one.be_strict(True)
    assert one.next_report(SECONDS) is not None
    one.cleanup()
    with pytest.raises(RuntimeError, match="no end for me"):
        one.next_report(SECONDS)


def test_what_never_began_has_nothing_to_end() -> None:
    one = wrap_function(by_report)({"x": 1})
    one.cleanup()
    assert not one.is_over and one.train()["x"] == 1
    with pytest.raises(TypeError, match=r"^trainable positional\(\) needs 3 arguments"):
        wrap_function(positional)


def positional(config: Any, reporter: Any, more: Any, /) -> None: ...


def test_another_configuration_is_a_new_start() -> None:
    one = wrap_function(by_report)({"x": 1})
    assert one.train()["x"] == 1
    assert one.reset({"x": 2}) and one.train()["x"] == 2


def test_a_function_can_not_be_saved_from_outside() -> None:
    with pytest.raises(CheckpointError, match=r"^function by_report\(\) can't be saved from outside: have it report"):
        wrap_function(by_report)({"x": 1}).save()


def test_too_many_arguments_are_named() -> None:
    def wants(config: Any, reporter: Any, more: Any) -> None: ...

    with pytest.raises(TypeError, match=r"^trainable wants\(\) needs 3 arguments: .*use with_parameters for others"):
        wrap_function(wants)
    assert wrap_function(functools.partial(wants, more=1), "short").__name__ == "short"


def test_a_reporter_with_a_queue_is_for_tests_of_functions(tmp_path: Path) -> None:
    def train(config: dict[str, Any], reporter: Any) -> None:
        reporter(score=config["x"], name=reporter.trial_name, at=reporter.logdir)
        reporter(score=2, done=True)

    reports: queue.Queue[dict[str, Any]] = queue.Queue()
    may_go = threading.Semaphore(2)
    reporter = StatusReporter(reports, may_go, "f_1", "1", str(tmp_path))
    train({"x": 1}, reporter)
    assert not may_go.acquire(blocking=False)
    assert [reports.get_nowait(), reports.get_nowait()] == [
        {"score": 1, "name": "f_1", "at": str(tmp_path)}, {"score": 2, "done": True},
    ]  # fmt: skip
    assert reporter.trial_id == "1"
    with running_trial(tmp_path) as trial:
        within = StatusReporter()
        within(3, more=4)
        assert (within.trial_id, within.trial_name, within.logdir) == ("00000000", "train_00000000", str(tmp_path))
        assert [report["_metric"] for report, _ in trial.reports()] == [3]


def test_a_trial_has_no_shards_of_datasets(tmp_path: Path) -> None:
    with running_trial(tmp_path), pytest.raises(
        RunError, match=r"trial train_00000000 has no shard of dataset 'train': .* is in config\['datasets'\]"
    ):  # fmt: skip
        kernel_runs.get_dataset_shard()


def test_a_reader_waits_no_longer_than_it_said() -> None:
    now = [0.0]
    one = FunctionSession(Place(), lambda metrics, seconds: {**metrics, "seconds": seconds}, clock=lambda: now[0])
    assert one.take(0) is None and not one.is_over and not one.has_more
    now[0] = 2.0
    one.report({"a": 1})
    assert one.has_more and one.take(0) == ({"a": 1, "seconds": 2.0}, None)
    one.end()
    assert one.take(SECONDS) is None and one.is_over and not one.is_stopped


def test_the_class_of_a_function_is_a_trainable() -> None:
    kind = wrap_function(by_report)
    assert issubclass(kind, FunctionTrainable) and kind.__name__ == "by_report" and kind.__module__ == __name__
