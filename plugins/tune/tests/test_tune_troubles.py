"""What goes wrong: each trouble has a clear message, and leaves an experiment that can be resumed."""

from __future__ import annotations

import gc
import json
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.pickling import PicklingError
from kernel_tune.searchers import Searcher

from kernel import tune
from kernel.testing.disks import SmallDisk, why_not
from kernel.tune import schedulers

pytestmark = pytest.mark.usefixtures("session")


def run(trainable: Any, **arguments: Any) -> list[tune.Trial]:
    """Run quietly, under one name; return the trials."""
    return tune.run(  # type: ignore[no-any-return]
        trainable, **{"name": "trouble", "verbose": 0, "return_trials": True, **arguments}
    )


def column(trial: tune.Trial, key: str) -> list[Any]:
    """Return what a trial's result.json has."""
    return [json.loads(line)[key] for line in Path(trial.logdir, "result.json").read_text().splitlines()]


def objective(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": step})


class Steps(tune.Trainable):
    """Counts, in its state."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        Path(checkpoint_dir, "first").write_text(str(self.count))
        if self.count == self.config.get("dies_at") and not os.path.exists("died"):
            Path("died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        Path(checkpoint_dir, "second").write_bytes(str(self.count).encode() + b" " * self.config.get("bytes", 0))

    def load_checkpoint(self, checkpoint: str) -> None:
        counts = {int(Path(checkpoint, name).read_bytes()) for name in ("first", "second")}
        (self.count,) = counts
        with open("loaded", "a") as file:
            file.write(f"{self.count} ")


# -- what is seen of a trial -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reuse", [False, True])
def test_what_trials_print_is_in_files_of_their_own(results: Path, reuse: bool) -> None:
    def prints(config: dict[str, Any]) -> None:
        print("x is", config["x"])
        print("careful", file=sys.stderr)
        tune.report({"x": 1})
        if config["x"] == 2:
            raise ValueError("two")

    trials = run(
        prints, config={"x": tune.grid_search([1, 2, 3])}, log_to_file=True, reuse_actors=reuse,
        resources_per_trial={"cpu": 2}, raise_on_failed_trial=False,
    )  # fmt: skip
    assert [Path(trial.logdir, "stdout").read_text() for trial in trials] == ["x is 1\n", "x is 2\n", "x is 3\n"]
    errors = [Path(trial.logdir, "stderr").read_text() for trial in trials]
    assert errors[0] == errors[2] == "careful\n" and errors[1].startswith("careful\nTraceback")
    assert errors[1].endswith("ValueError: two\n")
    (trial,) = run(prints, config={"x": 1}, log_to_file=("out.txt", None))
    assert Path(trial.logdir, "out.txt").read_text() == "x is 1\n" and not Path(trial.logdir, "stderr").exists()
    (trial,) = run(prints, config={"x": 1}, log_to_file="both.txt")
    assert sorted(Path(trial.logdir, "both.txt").read_text().splitlines()) == ["careful", "x is 1"]
    with pytest.raises(tune.TuneError, match=r"log_to_file is 3: it is True .*, the name of one file, or two names"):
        run(prints, log_to_file=3)


@pytest.mark.parametrize("deterministic", [False, True], ids=["ahead", "step by step"])
def test_the_last_result_says_that_it_is_the_last(results: Path, deterministic: bool) -> None:
    heard: list[bool] = []

    class Hears(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: tune.Trial, **info: Any) -> None:
            heard.append(trial.last_result["done"])

    (trial,) = run(objective, deterministic=deterministic, callbacks=[Hears()])
    assert trial.last_result["done"] is True and heard == [True]
    assert column(trial, "done") == [False, False, True] and column(trial, "loss") == [0, 1, 2]
    table = Path(trial.logdir, "progress.csv").read_text().splitlines()
    place = table[0].split(",").index("done")
    assert [line.split(",")[place] for line in table[1:]] == ["False", "False", "True"]


# -- trials ------------------------------------------------------------------------------------------------------------


def test_a_killed_process_says_how_it_died_and_half_a_checkpoint_is_none(results: Path) -> None:
    arguments: dict[str, Any] = {
        "config": {"dies_at": 4},
        "stop": {"training_iteration": 6},
        "checkpoint_freq": 1,
        "deterministic": True,  # so that each result is there before the next is begun
    }
    with pytest.raises(tune.TuneError, match=r"the process of trial Steps_\w+ gave no answer: .*signal 9 \(SIGKILL\)"):
        run(Steps, **arguments)
    (trial,) = run(Steps, **arguments, resume="ERRORED")
    assert column(trial, "count") == [1, 2, 3, 4, 5, 6] and Path(trial.logdir, "loaded").read_text() == "3 "
    names = os.listdir(trial.logdir)
    assert "checkpoint_000004" in names and not [name for name in names if name.startswith(".")]


def cut(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def remove_all(file: Path) -> None:
    shutil.rmtree(file.parent)


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        (cut, "its file second has 0 of 1 bytes"),
        (remove, "its file second is missing"),
        (remove_all, "it does not exist"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(
    results: Path, caplog: pytest.LogCaptureFixture, harm: Callable[[Path], None], what: str
) -> None:
    arguments: dict[str, Any] = {
        "config": {"dies_at": 4}, "stop": {"training_iteration": 6}, "checkpoint_freq": 1, "deterministic": True,
        "raise_on_failed_trial": False,
    }  # fmt: skip
    (trial,) = run(Steps, **arguments)
    newest, former = (Path(trial.logdir, f"checkpoint_00000{number}") for number in (3, 2))
    harm(newest / "second")
    caplog.clear()
    (trial,) = run(Steps, **arguments, resume="ERRORED")
    assert [record.getMessage() for record in caplog.records] == [
        f"checkpoint {newest} of trial {trial} is damaged ({what}): the trial continues from the one before, {former}"
    ]
    assert column(trial, "count") == [1, 2, 3, 4, 5, 6] and Path(trial.logdir, "loaded").read_text() == "2 "


def test_a_trial_with_only_damaged_checkpoints_begins_anew(results: Path, caplog: pytest.LogCaptureFixture) -> None:
    def saves(config: dict[str, Any]) -> None:
        checkpoint = tune.get_checkpoint()
        start = checkpoint.to_dict()["step"] if checkpoint is not None else 0
        for step in range(start + 1, 5):
            tune.report({"step": step, "start": start}, checkpoint=tune.Checkpoint.from_dict({"step": step}))
            if step == 2 and not Path("failed").exists():
                Path("failed").touch()
                raise ValueError("once")

    (trial,) = run(saves, raise_on_failed_trial=False)
    for file in Path(trial.logdir).glob("checkpoint_*/*"):
        os.truncate(file, os.path.getsize(file) // 2)
    caplog.clear()
    (trial,) = run(saves, resume="ERRORED")
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2 and "checkpoint_000002 of trial" in texts[0] and "continues from the one before" in texts[0]
    assert f"checkpoint_000001 of trial {trial} is damaged" in texts[1] and texts[1].endswith(
        "): the trial begins anew"
    )
    assert column(trial, "step") == [1, 2, 3, 4] and column(trial, "start") == [0, 0, 0, 0]


@pytest.mark.parametrize("reuse", [False, True])
def test_generators_end_when_they_are_told_to(results: Path, reuse: bool) -> None:
    def polite(config: dict[str, Any]) -> Any:
        try:
            for step in range(1_000_000):
                yield {"loss": step}
        finally:
            Path("cleaned").touch()

    def stubborn(config: dict[str, Any]) -> Any:
        while True:
            try:
                yield {"loss": 1}
            except GeneratorExit:
                Path("told").touch()

    def nested(config: dict[str, Any]) -> Any:
        while True:
            tune.report({"loss": 1})
            yield {"loss": 2}

    arguments: dict[str, Any] = {"stop": {"training_iteration": 5}, "num_samples": 3, "reuse_actors": reuse}
    for trainable, trace in ((polite, "cleaned"), (stubborn, "told"), (nested, "")):
        trials = run(trainable, **arguments, resources_per_trial={"cpu": 2}, log_to_file=True)
        assert [(str(trial.status), trial.results) for trial in trials] == [("TERMINATED", 5)] * 3
        assert not trace or all(Path(trial.logdir, trace).exists() for trial in trials)
        for trial in trials:
            errors = Path(trial.logdir, "stderr").read_text()
            assert "Traceback" not in errors and "Exception ignored" not in errors


def test_a_full_disk(results: Path) -> None:
    """First the checkpoints have no room; then nothing has, the log included."""
    if reason := why_not():
        pytest.skip(f"not tried on a full disk: {reason}")
    arguments: dict[str, Any] = {
        "config": {"bytes": 400_000}, "stop": {"training_iteration": 8}, "checkpoint_freq": 1,
        "raise_on_failed_trial": False,
    }  # fmt: skip
    with SmallDisk(2 << 20) as disk:
        (trial,) = run(Steps, **arguments, local_dir=disk.path)
        assert str(trial.status) == "ERROR" and 3 <= trial.results < 8
        assert "OSError: [Errno 28] No space left on device" in trial.error_message
        assert f"the checkpoint after iteration {trial.results + 1} can't be written to {trial.logdir}: no space" in (
            trial.error_message
        )
        assert "bytes are free now). The one before it is kept" in trial.error_message
        for kept in sorted(Path(trial.logdir).glob("checkpoint_*"))[:-1]:
            os.remove(kept / "second")
        failed = trial.results
        (trial,) = run(Steps, **arguments | {"checkpoint_freq": 0}, local_dir=disk.path, resume="ERRORED")
        assert Path(trial.logdir, "loaded").read_text() == f"{failed} "

        class Fills(tune.Callback):
            def on_trial_start(self, *arguments: Any, **info: Any) -> None:
                disk.fill()

        arguments |= {"checkpoint_freq": 0, "name": "full", "local_dir": disk.path}
        with pytest.raises(tune.TuneError, match=r"can't write .*/full/.*: No space left on device.*resume it"):
            run(Steps, **arguments, callbacks=[Fills()])
        disk.free()
        (trial,) = run(Steps, **arguments, resume=True)
        assert column(trial, "count") == list(range(1, 9))


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_metrics_that_are_missing_or_nan_are_named(results: Path, caplog: pytest.LogCaptureFixture) -> None:
    def reports(config: dict[str, Any]) -> None:
        for value in config["values"]:
            tune.report({"loss": value} if value is not None else {"accuracy": 1})

    search: dict[str, Any] = {"search_alg": "tpe", "metric": "loss", "mode": "min", "num_samples": 2}
    space = {"x": tune.uniform(0, 1)}
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        run(reports, config={**space, "values": [None, "high", float("nan"), float("nan")]}, **search)
        run(reports, config={**space, "values": []}, **search)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 5, texts
    for text, expected in zip(
        texts[:4],
        [
            "reported no 'loss' in iteration 1, and TPESearch goes by it. It reported: accuracy. Such results count",
            "reported 'high', which is not a number, as 'loss' in iteration 2, and TPESearch goes by it",
            "reported NaN as 'loss' in iteration 3, which counts as worse than every number",
            "has ended without a result: its trainable reported nothing",
        ],
        strict=True,
    ):
        assert text.startswith("trial reports_") and expected in text


def test_a_scheduler_without_its_metric_stops_and_goes_on_when_that_is_mended(results: Path) -> None:
    def reports(config: dict[str, Any], key: str = "") -> None:
        for step in range(4):
            tune.report({key: step})

    arguments: dict[str, Any] = {"metric": "score", "mode": "max", "scheduler": schedulers.ASHAScheduler()}
    with pytest.raises(tune.TuneError, match=r"trial reports_\w+ reported no 'score', and Async.*It reported: typo\."):
        run(tune.with_parameters(reports, key="typo"), **arguments)
    (trial,) = run(tune.with_parameters(reports, key="score"), **arguments, resume=True)
    assert column(trial, "score") == [0, 1, 2, 3]


# -- what can't be pickled ---------------------------------------------------------------------------------------------


def test_what_cannot_be_pickled_is_named(results: Path, caplog: pytest.LogCaptureFixture) -> None:
    door = threading.Lock()

    def locks(config: dict[str, Any]) -> None:
        with door:
            tune.report({"x": 1})

    class Locks(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"x": door}

    hint = r"(?s).*Create the lock where it is used.*\n.*tune\.with_parameters\({}, \.\.\.\)"
    with pytest.raises(
        PicklingError, match=r'trainable locks can.t be sent .*: locks\.__closure__\["door"\] is a'
    ) as e:
        run(locks)
    assert e.match(hint.format("locks"))
    with pytest.raises(PicklingError, match=r'trainable Locks can.t be sent .*: Locks\.step\.__closure__\["door"\]'):
        run(Locks)
    with pytest.raises(PicklingError, match=r"parameter 'data' of with_parameters\(\) can't .*: data\[0\] is a"):
        tune.with_parameters(objective, data=[door])

    class Holds(Searcher):
        lock = door

        def __init__(self) -> None:
            super().__init__()
            self.mine = door

        def suggest(self, trial_id: str) -> dict[str, Any]:
            return {"x": 1}

    (trial,) = run(objective, search_alg=Holds())
    assert str(trial.status) == "TERMINATED" and Path(trial.local_dir, "experiment_state.json").exists()
    (text,) = [record.getMessage() for record in caplog.records]
    assert "so that it can't be resumed after a kill: it can't be pickled: state" in text
    assert ".algorithm.searcher.mine is a _thread.lock" in text


# -- code of users that raises -----------------------------------------------------------------------------------------


def made(what: str, broken: bool) -> dict[str, Any]:
    """Return arguments of tune.run with one piece that raises, or is mended: it has the same name then."""

    class MySearcher(Searcher):
        asked = 0

        def suggest(self, trial_id: str) -> dict[str, Any]:
            self.asked += 1
            if broken and what == "searcher" and self.asked == 2:
                raise ArithmeticError("as it was told to")
            return {"asked": self.asked}

    class MyScheduler(schedulers.FIFOScheduler):
        def on_trial_result(self, runner: Any, trial: tune.Trial, result: Any) -> str:
            if broken and what == "scheduler" and trial.results == 1:
                raise ArithmeticError("as it was told to")
            return self.CONTINUE

    class MyCallback(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: tune.Trial, result: Any, **info: Any) -> None:
            if broken and what == "callback" and trial.results > 1:
                raise ArithmeticError("as it was told to")

    def my_stop(trial_id: str, result: Any) -> bool:
        if broken and what == "stop" and result["loss"] == 1:
            raise ArithmeticError("as it was told to")
        return False

    return {"search_alg": MySearcher(), "scheduler": MyScheduler(), "callbacks": [MyCallback()], "stop": my_stop}


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("searcher", "MySearcher raised ArithmeticError: as it was told to"),
        ("scheduler", "MyScheduler raised ArithmeticError: as it was told to"),
        ("callback", r"callback MyCallback raised ArithmeticError in on_trial_results\(\): as it was told to"),
        ("stop", r"the stop criterion made.<locals>.my_stop raised ArithmeticError: as it was told to"),
    ],
)
def test_code_that_raises_is_named_and_can_be_mended(results: Path, what: str, message: str) -> None:
    with pytest.raises(
        tune.TuneError,
        match=message + r".* The state of the experiment .*is saved in .*/trouble: mend the c\w+, then resume",
    ):
        run(objective, num_samples=2, **made(what, broken=True))
    gc.collect()  # as in another process, the classes that were written down are made anew
    trials = run(objective, num_samples=2, resume=True, **made(what, broken=False))
    assert [trial.config for trial in trials] == [{"asked": 1}, {"asked": 2}]
    assert [column(trial, "loss") for trial in trials] == [[0, 1, 2], [0, 1, 2]]
    assert [str(trial.status) for trial in trials] == ["TERMINATED", "TERMINATED"]


def test_a_second_interrupt_is_raised_at_once(results: Path) -> None:
    class Interrupts(tune.Callback):
        def on_trial_result(self, *arguments: Any, **info: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("went on")

    with pytest.raises(KeyboardInterrupt):
        run(objective, callbacks=[Interrupts()])
    (trial,) = run(objective, resume=True)
    assert column(trial, "loss") == [0, 1, 2]
