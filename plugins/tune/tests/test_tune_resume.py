"""A program that is killed and started again goes on where it was, and ends as one that was not killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.faults import wait_until

SECONDS = 200.0
"""How long anything may take: the machine may be busy."""
PROGRAM = """
import signal, sys, time
from pathlib import Path
import kernel
from kernel import tune
from kernel.tune import schedulers

class Walk(tune.Trainable):
    def setup(self, config):
        self.place = 0.0
    def step(self):
        self.place += self.config["x"] / (1 + self.iteration)
        return {"score": self.place}
    def save_checkpoint(self, checkpoint_dir):
        return {"place": self.place}
    def load_checkpoint(self, checkpoint):
        self.place = checkpoint["place"]

SCHEDULERS = {
    "asha": lambda: schedulers.ASHAScheduler(max_t=12, grace_period=2, reduction_factor=2),
    "hyperband": lambda: schedulers.HyperBandScheduler(max_t=9),
    "pbt": lambda: schedulers.PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=3, hyperparam_mutations={"x": tune.uniform(0, 1)}, seed=4
    ),
}
class Holds(tune.Callback):
    def on_trial_result(self, *arguments, **info):
        log, held = Path(folder, "walk", "experiment.log"), Path(folder, "held")
        if size and not held.exists() and log.exists() and log.stat().st_size > float(size[0]):
            held.touch()
            if how == ["interrupted"]:
                signal.raise_signal(signal.SIGINT)
            while how == ["waits"] and not Path(folder, "go").exists():
                time.sleep(0.01)

if __name__ == "__main__":
    folder, scheduler, size, *how = sys.argv[1:]
    kernel.init(num_cpus=3, log_to_driver=False)
    tune.run(
        Walk, name="walk", local_dir=folder, config={"x": tune.uniform(0, 1)}, metric="score", mode="max",
        num_samples=8, stop={"training_iteration": 12}, scheduler=SCHEDULERS[scheduler](), checkpoint_freq=4,
        resume="AUTO", seed=7, deterministic=True, reuse_actors=True, verbose=0, global_checkpoint_period=0.2,
        return_trials=True, callbacks=[Holds()],
    )
"""


def start(program: Path, folder: Path, scheduler: str, size: str = "", *how: str) -> subprocess.Popen[bytes]:
    """Start the program. When the log has so many bytes, it `waits` until it may `go`, or is `interrupted`."""
    command = [sys.executable, str(program), str(folder), scheduler, size, *how]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def start_until(size: float, program: Path, folder: Path, scheduler: str) -> subprocess.Popen[bytes]:
    """Start the program, and wait until it waits."""
    for name in ("held", "go"):
        (folder / name).unlink(missing_ok=True)
    process = start(program, folder, scheduler, str(size), "waits")
    wait_until(lambda: (folder / "held").exists() or process.poll() is not None, SECONDS, "so much of an experiment")
    assert process.poll() is None
    return process


def finish(program: Path, folder: Path, scheduler: str) -> list[Any]:
    process = start(program, folder, scheduler)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors.decode()
    return outcome(folder)


def outcome(folder: Path) -> list[Any]:
    """Return what must be the same: trials, statuses, and every result that is written down."""
    state = json.loads((folder / "walk" / "experiment_state.json").read_text())
    rows = []
    for trial in state["trials"]:
        lines = Path(trial["logdir"], "result.json").read_text().splitlines()
        table = Path(trial["logdir"], "progress.csv").read_text().splitlines()
        results = [(json.loads(line)["training_iteration"], json.loads(line)["score"]) for line in lines]
        rows.append((trial["trial_id"], trial["status"], trial["config"], trial["experiment_tag"], results, len(table)))
    texts = {path.name: path.read_text() for path in (folder / "walk").glob("pbt_*.txt")}
    return [rows, texts]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "walk.py"
    path.write_text(PROGRAM)
    return path


def test_killed_again_and_again(program: Path, tmp_path: Path) -> None:
    """Population based training is the hardest: states of some trials come from others."""
    whole = finish(program, tmp_path / "whole", "pbt")
    assert len(whole[0]) == 8 and whole[1]
    size = (tmp_path / "whole" / "walk" / "experiment.log").stat().st_size
    for part in (0.3, 0.7):
        process = start_until(size * part, program, tmp_path / "killed", "pbt")
        (tmp_path / "killed" / "go").touch()  # it may be killed at any moment, not just there
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert finish(program, tmp_path / "killed", "pbt") == whole


def test_interrupted_once_it_saves_and_returns(program: Path, tmp_path: Path) -> None:
    whole = finish(program, tmp_path / "whole", "asha")
    size = (tmp_path / "whole" / "walk" / "experiment.log").stat().st_size
    process = start(program, tmp_path / "stopped", "asha", str(size * 0.5), "interrupted")
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors.decode()
    assert "interrupted: the experiment is being saved; press Ctrl-C again to stop at once" in errors.decode()
    state = json.loads((tmp_path / "stopped" / "walk" / "experiment_state.json").read_text())
    assert "RUNNING" in {trial["status"] for trial in state["trials"]}
    assert finish(program, tmp_path / "stopped", "asha") == whole
