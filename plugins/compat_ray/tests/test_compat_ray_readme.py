"""The first screen of the README runs, and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kernel_compat_ray.run import environment_of

from kernel.testing.roots import temporary_root

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_first_screen_runs(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    code, shown = re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(code)
    with temporary_root() as root:
        environment = environment_of({"PYTHONPATH": ":".join(filter(None, sys.path)), "KERNEL_TMPDIR": root}, False)
        done = subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=200
        )
    assert done.stdout == shown, done.stderr
