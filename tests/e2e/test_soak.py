"""The soak: it kills sessions as a whole, sees what is left of them, and tells what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import soak
from benchmarks.side_session import SideSession

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
