"""What failed in a run of all tests is run again alone: what then passes is flaky, and named; the rest is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rerun_alone import MOST_FLAKY, Failure, run_again

REPOSITORY = Path(__file__).resolve().parents[3]

START = """
import os
from pathlib import Path

import pytest

def fail(name, times):
    mark = Path({place!r}, name)
    count = len(mark.read_text()) if mark.exists() else 0
    mark.write_text("x" * (count + 1))
    assert count >= times, f"{{name}} failed for the {{count + 1}}. time"

@pytest.fixture
def ends_badly():
    yield
    fail("teardown", 1)

def test_right(): pass
"""
FLAKY = """
def test_once(): fail("once", 1)
def test_twice(): fail("twice", 2)
def test_at_its_end(ends_badly): pass
"""
BROKEN = """
def test_broken(): fail("broken", 1000)
def test_that_is_left_out_alone():
    if Path({place!r}, "left").exists():
        pytest.skip("only once")
    Path({place!r}, "left").touch()
    assert False
"""


def run(place: Path, text: str, *options: str, processes: int = 2) -> subprocess.CompletedProcess[str]:
    """Run tests as the whole suite is run."""
    (place / "test_them.py").write_text((START + text).format(place=str(place)))
    (place / "conftest.py").write_text('pytest_plugins = ["lost_workers", "rerun_alone"]\n')
    command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(place)]
    command += ["-n", str(processes), "-p", "no:cacheprovider", *options, str(place)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)


@pytest.mark.parametrize("processes", [0, 2])
def test_flaky_tests_are_named_with_their_tracebacks_and_fail_nothing(tmp_path: Path, processes: int) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "flaky.md").write_text("| `test_them.py::test_twice` | it counts |\n")
    done = run(tmp_path, FLAKY, "--rerun-alone", "2", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "flaky: test_them.py::test_once (mend it, or write it into tests/flaky.md with its cause)" in done.stdout
    assert "flaky: test_them.py::test_twice (it is in tests/flaky.md)" in done.stdout
    assert "flaky: test_them.py::test_at_its_end" in done.stdout
    for traceback in ("once failed for the 1. time", "twice failed for the 1. time", "twice failed for the 2. time"):
        assert f"AssertionError: {traceback}" in done.stdout
    assert "3 flaky" in done.stdout.splitlines()[-1] and "failed" not in done.stdout.splitlines()[-1]


def test_what_fails_alone_too_or_does_not_run_is_broken(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY + BROKEN, "--rerun-alone", "2")
    assert done.returncode == 1
    assert "failed when run again alone: test_them.py::test_broken" in done.stdout
    assert "failed when run again alone: test_them.py::test_that_is_left_out_alone" in done.stdout
    assert "flaky: test_them.py::test_once" in done.stdout
    assert "2 failed" in done.stdout.splitlines()[-1] and "3 flaky" in done.stdout.splitlines()[-1]
    assert (tmp_path / "broken").read_text() == "xxx"


def test_tests_that_are_named_are_not_run_again(tmp_path: Path) -> None:
    done = run(tmp_path, BROKEN)
    assert done.returncode == 1
    assert (tmp_path / "broken").read_text() == "x"


@pytest.mark.parametrize("processes", [0, 2])
def test_a_run_that_was_cut_short_does_not_pass(tmp_path: Path, processes: int) -> None:
    done = run(tmp_path, FLAKY, "--rerun-alone", "2", "--exitfirst", processes=processes)
    assert done.returncode != 0
    assert "flaky:" not in done.stdout


def test_more_failures_than_may_be_flaky_are_not_run_again() -> None:
    said: list[str] = []
    failures = [Failure(f"test_{number}", []) for number in range(MOST_FLAKY + 1)]
    assert not run_again(failures, 2, lambda test: (True, ""), said.append)
    assert said == ["6 tests failed, more than the 5 that may be flaky: none is run again alone"]
    assert not any(failure.flaky for failure in failures)
    assert run_again(failures[1:], 2, lambda test: (True, ""), said.append)


def test_every_test_that_is_known_to_be_flaky_is_there_and_has_its_cause() -> None:
    rows = [line for line in (REPOSITORY / "tests" / "flaky.md").read_text().splitlines() if line.startswith("| `")]
    for row in rows:
        _, test, cause, _ = (cell.strip() for cell in row.split("|"))
        file, name = test.strip("`").split("::")[0], test.strip("`").split("::")[-1].split("[")[0]
        assert f"def {name}(" in (REPOSITORY / file).read_text(), test
        assert len(cause) > 20, test
