"""What becomes of a run of tests side by side when one of them ends, or hangs, its process."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LOST = "import os\ndef test_first(): pass\ndef test_lost(): os._exit(1)\ndef test_last(): pass\n"
HANGS = "import threading\ndef test_hangs(): threading.Event().wait()\ndef test_last(): pass\n"
OTHERS = "def test_first(): pass\ndef test_last(): pass\n"


def test_a_lost_process_fails_the_run_and_does_not_keep_it_from_its_end(tmp_path: Path) -> None:
    # The first two are given to the two processes at once.
    for name, text in {"a_lost": LOST, "b_hangs": HANGS, **dict.fromkeys("cdef", OTHERS)}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    options = [
        "-c",
        str(REPOSITORY / "pyproject.toml"),
        "--rootdir",
        str(tmp_path),
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
    ]
    limits = ["--timeout", "2", "-o", "faulthandler_timeout=1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *limits, str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running 'test_a_lost.py::test_lost'" in done.stdout
    assert "crashed while running 'test_b_hangs.py::test_hangs'" in done.stdout
    assert "2 failed" in done.stdout
    assert 'test_b_hangs.py", line 2 in test_hangs' in done.stderr, "where it hung"
