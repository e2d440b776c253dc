"""What becomes of a run of tests side by side when one of them ends, or hangs, its process."""

import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

from lost_workers import FileScheduling

REPOSITORY = Path(__file__).resolve().parents[3]
LOST = "import os\ndef test_first(): pass\ndef test_lost(): os._exit(1)\ndef test_last(): pass\n"
HANGS = """
import pytest, threading
@pytest.mark.timeout(4)
def test_hangs(): threading.Event().wait()
def test_last(): pass
"""
OTHERS = "def test_first(): pass\ndef test_last(): pass\n"
LONELY = "def test_lonely(): pass\n"


def run(place: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Run tests with two processes, as the whole suite is run."""
    for name, text in files.items():
        (place / f"test_{name}.py").write_text(text)
    with open(place / "conftest.py", "a") as file:
        file.write('pytest_plugins = ["lost_workers", "rerun_alone"]\n')
    command = [sys.executable, "-m", "pytest", "-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(place)]
    command += ["-n", "2", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=1", *options]
    return subprocess.run([*command, str(place)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=500)


def test_a_lost_process_costs_one_test_and_all_others_run(tmp_path: Path) -> None:
    # The first two are given to the two processes at once. The last is given to a process of its own, alone.
    done = run(tmp_path, {"a_lost": LOST, "b_hangs": HANGS, **dict.fromkeys("cdef", OTHERS), "g": LONELY})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running 'test_a_lost.py::test_lost'" in done.stdout
    assert "crashed while running 'test_b_hangs.py::test_hangs'" in done.stdout
    assert "2 failed, 12 passed" in done.stdout
    assert 'test_b_hangs.py", line 4 in test_hangs' in done.stderr, "where it hung"


def test_the_last_file_may_lose_its_process(tmp_path: Path) -> None:
    done = run(tmp_path, {"a": LONELY, "b": LONELY, "c_lost": LOST})
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 4 passed" in done.stdout


def test_many_lost_processes_end_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, dict.fromkeys("abcdefghij", LOST), "--rerun-alone", "2")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "maximum crashed workers reached: 5" in done.stdout
    failed = re.search(r"(\d+) failed", done.stdout)
    assert failed and failed[1] in ("6", "7"), "the sixth ends the run; the other process may be in its own by then"
    assert "none is run again alone" in done.stdout


class Process:
    """Stands for a process of a run, which notes what it is asked to run, or has ended."""

    shutting_down = False

    def __init__(self, has_ended: bool) -> None:
        self.has_ended = has_ended
        self.asked: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        if self.has_ended:
            raise OSError("cannot send (already closed?)")
        self.asked += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_what_a_process_is_given_that_has_just_ended_goes_to_the_others() -> None:
    scheduling: Any = FileScheduling.__new__(FileScheduling)
    ended, other = Process(has_ended=True), Process(has_ended=False)
    tests = ["a::lost", "b::other"]
    scheduling.registered_collections = {ended: tests, other: tests}
    scheduling.assigned_work = {ended: OrderedDict(a={"a::lost": False}), other: OrderedDict()}
    scheduling.workqueue = OrderedDict(b={"b::other": False})
    scheduling._reschedule(ended)
    assert scheduling.remove_node(ended) == "a::lost"
    assert other.asked == [1] and other.shutting_down


def test_a_run_whose_processes_never_get_to_a_test_does_not_pass(tmp_path: Path) -> None:
    ends = "import os\ndef pytest_collection_modifyitems():\n    if os.environ['PYTEST_XDIST_WORKER'] != 'gw0':\n"
    (tmp_path / "conftest.py").write_text(ends + "        os._exit(1)\n")
    done = run(tmp_path, dict.fromkeys("abcd", OTHERS))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "8 of 8 tests did not run: processes were lost" in done.stdout, done.stderr


def test_a_test_that_lost_its_process_once_is_flaky(tmp_path: Path) -> None:
    once = "import os, pathlib\ndef test_lost():\n    mark = pathlib.Path('mark')\n    if not mark.exists():\n"
    once += "        mark.touch()\n        os._exit(1)\n"
    done = run(tmp_path, {"a": once.replace("'mark'", repr(str(tmp_path / "mark"))), "b": OTHERS}, "--rerun-alone", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "crashed while running 'test_a.py::test_lost'" in done.stdout
    assert "2 passed, 1 flaky" in done.stdout
