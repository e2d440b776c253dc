"""The soak: it kills sessions as a whole, sees what is left of them, and tells what went wrong."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from benchmarks import soak, soak_actors
from benchmarks.outcome import Outcome
from benchmarks.side_session import SideSession
from kernel.testing.session import running_session

SECONDS = 120.0


@pytest.mark.parametrize("victim", ["agent", "agent and program"])
def test_nothing_is_left_of_a_session_that_is_killed_under_load(victim: str) -> None:
    with SideSession() as side:
        assert side.strike(victim, after=0.2, patience=SECONDS) == []


def test_what_is_left_is_named() -> None:
    with SideSession() as side:
        file = Path(side.folder, "forgotten")
        file.touch()
        assert any(item.startswith("process ") for item in side.left()) and f"file {file}" in side.left()
        assert [item for item in side.strike("program", after=0.0, patience=0.1) if str(file) in item]


def test_a_soak_that_breaks_off_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*arguments: object) -> None:
        raise AssertionError("the agent has no template process at present")

    monkeypatch.setattr(soak, "soak", broken)
    assert soak.main(["--minutes", "1"]) == 1
    shown = capsys.readouterr().out
    assert "broke off: the agent has no template process at present" in shown
    assert shown.rstrip().endswith("left behind:       nothing")


def test_every_wave_gives_what_it_must(tmp_path: Path) -> None:
    outcome, dice = Outcome(), random.Random(1)
    with running_session(num_cpus=4, log_to_driver=False, logging_level="CRITICAL") as session:
        lasting, pids = soak_actors.lasting()
        waves = dict.fromkeys(soak.waves_of(session.root, tmp_path, lasting))
        for wave in waves:
            wave(dice, outcome)
        watch = soak.Watch(dict(pids))
        watch.tick()
        assert list(watch.looks[0].memory) == ["program", "node agent", *pids, "task worker 1"]
        del waves, lasting, wave
        gc.collect()
    assert outcome.wrong == [] and not outcome.documented.keys() - {"cancelled: TaskCancelledError"}
    assert len(outcome.right) > 25
