"""Trials on other machines than the program's: agents on this one, each with a directory of its own for them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.storage.trial_files import Piece, changed, in_batches, list_files, read_pieces, write_pieces
from kernel_tune.trainable.trial_directory import TrialDirectory

from kernel import tune
from kernel.testing import Cluster
from kernel.testing.faults import wait_until
from kernel.tune import schedulers


class Machines:
    """A cluster whose head runs no trial, and two nodes with directories of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster = Cluster(num_cpus=0, death_seconds=60.0)
        self.nodes = [self.add(name) for name in ("a", "b")]
        self.cluster.connect(log_to_driver=False)

    def add(self, name: str, resource: str = "") -> Any:
        """Add a node of one CPU whose trials are below the directory `name`, with the resource of that name."""
        os.environ["TUNE_NODE_DIR"] = str(self.root / name)
        try:
            return self.cluster.add_node(num_cpus=1, resources={resource or name: 1})
        finally:
            del os.environ["TUNE_NODE_DIR"]

    def there(self, name: str, trial: tune.Trial) -> Path:
        """Return the trial's directory on a node."""
        return self.root / name / Path(trial.local_dir).name / Path(trial.logdir).name


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines(tmp_path_factory.mktemp("nodes"))
    try:
        yield made
    finally:
        made.cluster.shutdown()


def run(trainable: Any, **arguments: Any) -> list[tune.Trial]:
    return tune.run(trainable, **{"name": "away", "verbose": 0, "return_trials": True, **arguments})  # type: ignore[no-any-return]


def on(name: str) -> dict[str, Any]:
    return {"resources_per_trial": {"cpu": 1, name: 1}}


def column(trial: tune.Trial, key: str) -> list[Any]:
    return [json.loads(line)[key] for line in Path(trial.logdir, "result.json").read_text().splitlines()]


def writes(config: dict[str, Any]) -> None:
    Path("model.pth").write_bytes(b"weights" * 3)
    Path("empty").touch()
    Path("deep", "er").mkdir(parents=True)
    Path("deep", "er", "notes.txt").write_text(os.getcwd())
    Path(".hidden").touch()
    tune.report({"score": 1}, checkpoint=tune.Checkpoint.from_dict({"step": 1}))
    Path("late.txt").write_text("after the last report")
    if config.get("fails"):
        raise ValueError("as it was told to")


def test_what_a_trial_writes_comes_to_the_programs_directory(machines: Machines, results: Path) -> None:
    (trial,) = run(writes, **on("a"))
    home, there = Path(trial.logdir), machines.there("a", trial)
    assert there.is_dir() and (home / "deep" / "er" / "notes.txt").read_text() == str(there)
    assert (home / "model.pth").read_bytes() == b"weights" * 3 and (home / "empty").read_bytes() == b""
    assert (home / "late.txt").read_text() == "after the last report"
    assert not (home / ".hidden").exists() and not [name for name in os.listdir(home) if name.startswith(".")]
    assert not (there / "result.json").exists() and column(trial, "score") == [1]
    assert tune.Checkpoint(str(home / "checkpoint_000001")).to_dict() == {"step": 1}
    assert Path(home, "model.pth").stat().st_mtime_ns == (there / "model.pth").stat().st_mtime_ns


def test_also_when_it_fails_or_is_killed(machines: Machines, results: Path) -> None:
    def dies(config: dict[str, Any]) -> None:
        Path("first.txt").write_text("1")
        tune.report({"score": 1})
        Path("second.txt").write_text("2")
        os.kill(os.getpid(), signal.SIGKILL)

    (trial,) = run(writes, config={"fails": True}, **on("b"), raise_on_failed_trial=False)
    assert str(trial.status) == "ERROR" and Path(trial.logdir, "late.txt").exists()
    (trial,) = run(dies, **on("b"), raise_on_failed_trial=False)
    assert str(trial.status) == "ERROR" and "SIGKILL" in trial.error_message
    assert Path(trial.logdir, "second.txt").read_text() == "2"


def test_files_come_while_the_trial_runs(machines: Machines, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel_tune.execution.node_files.PERIOD_SECONDS", 0.1)
    (results / "away").mkdir(parents=True)

    def waits(config: dict[str, Any]) -> None:
        Path("early.txt").write_text("here")
        while not list(Path(config["home"]).glob("*/early.txt")):
            tune.report({"score": 1})

    (trial,) = run(waits, config={"home": str(results / "away")}, **on("a"), deterministic=True)
    assert trial.results >= 1 and Path(trial.logdir, "early.txt").read_text() == "here"


class Moves(tune.Trainable):
    """Appends to a file; runs on the one machine, then, after a pause, on the other."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        with open("log.txt", "a") as file:
            file.write(f"{self.count} in {Path.cwd().parents[1].name}\n")
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = checkpoint["count"]


class GoesElsewhere(schedulers.FIFOScheduler):
    """Has a trial go on with other resources after each second result: on the other machine, and back."""

    def on_trial_result(self, runner: Any, trial: tune.Trial, result: dict[str, Any]) -> str:
        if result["count"] % 2 == 0:
            runner.set_resources(trial, {"cpu": 1, "b" if result["count"] % 4 else "a": 1})
        return self.CONTINUE


def test_a_trial_takes_its_files_along(machines: Machines, results: Path) -> None:
    (trial,) = run(Moves, scheduler=GoesElsewhere(), stop={"training_iteration": 5}, **on("a"))
    lines = Path(trial.logdir, "log.txt").read_text().splitlines()
    assert lines == ["1 in a", "2 in a", "3 in b", "4 in b", "5 in a"] and column(trial, "count") == [1, 2, 3, 4, 5]
    assert not (machines.there("b", trial) / "result.json").exists()


def test_sync_to_driver_may_be_a_command_a_function_or_nothing(machines: Machines, results: Path) -> None:
    asked: list[tuple[str, str]] = []

    def copies(source: str, target: str) -> None:
        asked.append((source, target))
        shutil.copytree(source, target, dirs_exist_ok=True)

    arguments: dict[str, Any] = {"scheduler": GoesElsewhere(), "stop": {"training_iteration": 3}, **on("a")}
    (trial,) = run(Moves, **arguments, sync_to_driver=copies)
    a, home, b = str(machines.there("a", trial)), trial.logdir, str(machines.there("b", trial))
    assert asked == [(a, home), (home, b), (b, home)]
    assert Path(home, "log.txt").read_text().splitlines() == ["1 in a", "2 in a", "3 in b"]
    command = "cp -a {source}/. {target}/"
    (trial,) = run(Moves, **arguments, sync_to_driver=command, name="by command")
    assert len(Path(trial.logdir, "log.txt").read_text().splitlines()) == 3
    (trial,) = run(Moves, **arguments, sync_to_driver=False, name="off")
    assert not Path(trial.logdir, "log.txt").exists() and column(trial, "count") == [1, 2, 3]
    for config, is_there in ((tune.SyncConfig(sync_artifacts=False), False), (tune.SyncConfig(), True)):
        grid = tune.Tuner(
            tune.with_resources(writes, {"cpu": 1, "a": 1}), run_config=tune.RunConfig(verbose=0, sync_config=config)
        ).fit()
        assert Path(grid[0].path, "late.txt").exists() is is_there


def test_a_copy_that_fails_is_a_warning(machines: Machines, results: Path, caplog: pytest.LogCaptureFixture) -> None:
    (trial,) = run(writes, **on("a"), sync_to_driver="false {source} {target}")
    (text,) = [record.getMessage() for record in caplog.records]
    assert str(trial.status) == "TERMINATED"
    assert text.startswith(f"files of trial {trial} could not be fetched from {machines.there('a', trial)} on node")
    assert "the sync command ended with 1: false" in text and f"What is in {trial.logdir} is as it was" in text


# -- deaths ------------------------------------------------------------------------------------------------------------


class KillsItsNode(tune.Callback):
    """Kills the node of a trial when the trial's file has come from there, and adds another one."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.node = machines.add("c", "old or new")
        self.killed_at = 0

    def on_trial_result(self, iteration: int, trials: Any, trial: tune.Trial, result: Any, **info: Any) -> None:
        if not self.killed_at and Path(trial.logdir, "log.txt").exists():
            self.killed_at = result["count"]
            self.machines.cluster.kill_node(self.node)
            self.machines.add("d", "old or new")

    def stop(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self.killed_at) and result["count"] >= self.killed_at + 3


def test_a_node_that_is_killed_costs_what_was_not_fetched(
    machines: Machines, results: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kernel_tune.execution.node_files.PERIOD_SECONDS", 0.05)
    kills = KillsItsNode(machines)
    (trial,) = run(
        Moves, stop=kills.stop, callbacks=[kills], checkpoint_freq=1, keep_checkpoints_num=2, max_failures=1,
        queue_trials=True, resources_per_trial={"cpu": 1, "old or new": 1},
    )  # fmt: skip
    assert trial.failures == 1 and column(trial, "count") == list(range(1, kills.killed_at + 4))
    assert "gave no answer" in Path(trial.logdir, "error.txt").read_text()
    lines = Path(trial.logdir, "log.txt").read_text().splitlines()
    assert lines[0] == "1 in c" and lines[-1] == f"{kills.killed_at + 3} in d"
    assert {line.split()[-1] for line in lines} == {"c", "d"}
    texts = [record.getMessage() for record in caplog.records]
    assert any(
        f"files of trial {trial} could not be fetched from {machines.there('c', trial)}" in text for text in texts
    )


PROGRAM = """
import sys, time
from pathlib import Path
import kernel
from kernel import tune

class Slow(tune.Trainable):
    def setup(self, config):
        self.count = 0
    def step(self):
        self.count += 1
        while self.count == 4 and not Path(sys.argv[2]).exists():
            time.sleep(0.01)
        with open("log.txt", "a") as file:
            file.write(f"{self.count}\\n")
        return {"count": self.count}
    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}
    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]

kernel.init(address=sys.argv[1], log_to_driver=False)
tune.run(
    Slow, name="killed", config={"go": sys.argv[2]}, stop={"training_iteration": 6}, checkpoint_freq=1, verbose=0,
    num_samples=2, resume="AUTO", deterministic=True, seed=1,
)
"""


def test_a_driver_that_is_killed_goes_on_with_trials_elsewhere(
    machines: Machines, results: Path, tmp_path: Path
) -> None:
    program, go = tmp_path / "program.py", tmp_path / "go"
    program.write_text(PROGRAM.replace("sys.argv[2]", repr(str(go))))
    command = [sys.executable, str(program), machines.cluster.head.directory]

    def reported() -> list[int]:
        return [len(path.read_text().splitlines()) for path in results.glob("killed/*/result.json")]

    first = subprocess.Popen(command)
    try:
        wait_until(lambda: reported() == [3, 3], 120, "three results of each trial")
    finally:
        first.kill()
        first.wait()
    go.touch()
    subprocess.run(command, check=True, timeout=400)
    for path in results.glob("killed/*/result.json"):
        assert [json.loads(line)["count"] for line in path.read_text().splitlines()] == [1, 2, 3, 4, 5, 6]
        log = (path.parent / "log.txt").read_text().split()
        assert log[-3:] == ["4", "5", "6"], "what was written elsewhere after the kill"
    assert len(reported()) == 2


# -- what goes through the wire ----------------------------------------------------------------------------------------


def test_files_travel_in_pieces(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    contents = {"big": os.urandom(25), "none": b"", "a/b/small": b"1234567", "checkpoint_best.pt": b"mine"}
    for path, data in contents.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    for path in ("checkpoint_000001/x", "result.json", ".hidden", ".d/x", "a/checkpoint_1/kept"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).touch()
    os.mkfifo(source / "pipe")
    found = list_files(str(source))
    assert set(found) == {*contents, "a/checkpoint_1/kept"}
    batches = list(in_batches(found, limit=10))
    assert all(sum(piece.length for piece in batch) <= 10 for batch in batches) and len(batches) == 4
    for batch in batches:
        write_pieces(str(target), batch, read_pieces(str(source), batch))
    assert list_files(str(target)) == found and not changed(found, list_files(str(target)))
    assert {path: (target / path).read_bytes() for path in contents} == contents
    assert read_pieces(str(source), [Piece("gone", 0, 4, (4, 0))]) == [None]
    with pytest.raises(tune.TuneError, match=r"is said to be at '\.\./x', which is not in its directory"):
        write_pieces(str(target), [Piece("../x", 0, 1, (1, 0))], [b"x"])


def test_what_a_trial_starts_with_stays_light() -> None:
    heavy = ("kernel_tune.storage.experiment_files", "kernel_tune.execution", "numpy", "getpass")
    program = f"import sys, kernel_tune.trainable.actor; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_what_commands_are_told() -> None:
    home = TrialDirectory("n", "elsewhere", "10.0.0.7", "ann", "/results/e/t", False)
    assert home.source == "ann@10.0.0.7:/results/e/t"
    home.hostname = socket.gethostname()
    assert home.source == "/results/e/t"
