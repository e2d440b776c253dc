"""The code of an engine in a folder of its own is as little interrupted, and as little shown, as the kernel's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kernel.runtime import critical_sections, remote_traceback


def is_critical_below(file: Path) -> bool:
    """Return whether what code of `file` calls must not be interrupted."""
    names: dict[str, Any] = {"called": lambda: critical_sections.is_critical(sys._getframe())}
    exec(compile("critical = called()", str(file), "exec"), names)
    return bool(names["critical"])


def test_what_an_engine_calls_is_not_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(critical_sections, "_amid_submission", ())
    assert not is_critical_below(tmp_path / "mine" / "engine.py")
    for _ in range(2):
        critical_sections.take_in_all(str(tmp_path / "mine"))
    assert len(critical_sections._amid_submission) == 1
    assert is_critical_below(tmp_path / "mine" / "engine.py")
    assert not is_critical_below(tmp_path / "mine_too" / "engine.py")


def test_the_lines_of_an_engine_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_traceback, "_internal", remote_traceback._internal)
    file = str(tmp_path / "mine" / "engine.py")
    assert not remote_traceback.is_internal(file)
    remote_traceback.hide_all(str(tmp_path / "mine"))
    assert remote_traceback.is_internal(file)
    assert not remote_traceback.is_internal(str(tmp_path / "mine_too" / "engine.py"))
