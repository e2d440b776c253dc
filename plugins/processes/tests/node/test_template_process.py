"""The first template is a fork of the agent: what it keeps, and how it is waited for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, subprocess
from kernel_processes.node.template_process import fork_template

kept = os.memfd_create("kept", 0)
link, process = fork_template(["json.tool"])
try:
    process.wait(timeout=0.05)
except subprocess.TimeoutExpired:
    print("runs")
while os.getsid(process.pid) != process.pid:  # the first that it does when it has let go of what it inherited
    pass
files = []
while not files:
    try:
        files = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in sorted(os.listdir(f"/proc/{process.pid}/fd"))]
    except FileNotFoundError:  # It has read a module meanwhile, and closed it.
        pass
print(files[0], any("kept" in name for name in files))
END
print(process.wait(), process.wait(timeout=1))
process.kill()
"""


def run(end: str) -> list[str]:
    program = PROGRAM.replace("END", end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_forked_template_ends_with_its_link() -> None:
    assert run("link.close()") == ["runs", "/dev/null False", "0 0"]


def test_how_a_forked_template_was_ended_is_told() -> None:
    assert run("process.kill()")[-1] == "-9 -9"
    assert run("process.terminate()")[-1] == "-15 -15"
