"""What the tests of tune share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """One session of two CPUs for all tests of a module."""
    kernel.shutdown()
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of experiments."""
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))
    return tmp_path / "results"
