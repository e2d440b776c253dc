"""What was written down before `kernel_runs` was a library of its own is read: experiments go on, pickles load."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernel import tune
from kernel.tune import loggers

GOLDEN = Path(__file__).parent / "golden" / "before_runs"
SECONDS = 300.0
"""How long it may take: the machine may be busy."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    """The directory in which both experiments went on to their end, and what has become of them."""
    folder = tmp_path_factory.mktemp("golden") / "elsewhere"
    shutil.copytree(GOLDEN, folder)
    command = [sys.executable, str(GOLDEN / "walks.py"), "finish", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_experiments_end_as_if_nothing_had_stopped_them(finished: tuple[Path, list[Any]]) -> None:
    assert finished[1] == json.loads((GOLDEN / "outcome.json").read_text())


def test_results_of_that_time_are_read(finished: tuple[Path, list[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GOLDEN))
    for name in ("climbs", "descents"):
        assert tune.Tuner.can_restore(str(finished[0] / name))
    grid = tune.Tuner.restore(str(finished[0] / "climbs"), "not needed to look").get_results()
    [failed] = [result for result in grid if result.error is not None and "climb_1" in result.path]
    assert isinstance(failed.error, tune.TrialError) and isinstance(failed.error, ValueError)
    assert failed.error.cause.args[0] == "fell from"
    best = grid.get_best_result()
    with best.get_best_checkpoint("height", "max").as_directory() as directory:
        assert float(Path(directory, "height.txt").read_text()) == best.metrics["height"]


def test_what_programs_pickled_loads_as_the_classes_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GOLDEN))
    kept = pickle.loads((GOLDEN / "objects.pkl").read_bytes())
    assert kept["settings"] == tune.RunConfig(name="kept", checkpoint_config=tune.CheckpointConfig(num_to_keep=3))
    assert kept["base"] is tune.Trainable and issubclass(kept["class"], tune.Trainable)
    assert issubclass(kept["function"], tune.Trainable) and kept["function"].__name__ == "descend"
    assert kept["checkpoint"] == tune.Checkpoint("memory://kept/checkpoint_000002")
    assert kept["bundles"] == tune.PlacementGroupFactory([{"CPU": 1}], strategy="SPREAD")
    assert kept["resources"] == tune.Resources(cpu=2)
    assert [type(each) for each in kept["callbacks"]] == [
        loggers.JsonLoggerCallback, loggers.TBXLoggerCallback, loggers.WandbLoggerCallback,
    ]  # fmt: skip
    assert type(kept["error"]) is tune.TrialError and str(kept["error"]) == "it failed"
    trial = kept["trial"]
    assert type(trial) is tune.Trial and trial.status is tune.Trial.PENDING and trial.last_result == {"depth": -1.0}
