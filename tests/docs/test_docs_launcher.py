"""The commands of docs/launcher.md are typed, one by one, on two machines that are real sshd."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.testing.programs import need
from plugins.launcher.tests.machines import Machines

PAGE = Path(__file__).resolve().parents[2] / "docs" / "launcher.md"
PROGRAM = "import kernel\nkernel.init()\nprint(len(kernel.nodes()), 'nodes')\n"
SECONDS = 240.0


@pytest.fixture
def machines(tmp_path: Path):
    need("sshd")
    found = Machines(tmp_path / "machines")
    try:
        yield found
    finally:
        found.stop()


def test_the_first_cluster_goes_up_and_down(machines: Machines, tmp_path: Path) -> None:
    part = PAGE.read_text(encoding="utf-8").split("\n## A first cluster\n")[1].split("\n## ")[0]
    head, worker = machines.start("head"), machines.start("worker")
    meant = {"HEAD": head.entry, "WORKER": worker.entry, "USER": machines.user, "KEY": str(machines.key)}
    for kind, text in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL):
        if kind in ("yaml", "toml"):
            said = re.sub(r"\b(HEAD|WORKER|USER|KEY)\b", lambda found: meant[found[1]], text)
            (tmp_path / f"cluster.{kind}").write_text(said)
    (tmp_path / "code").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM)
    shown = {}
    environment = {
        **os.environ,
        "KERNEL_LAUNCHER_DIRECTORY": str(tmp_path / "state"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    (typed,) = [text for kind, text in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL) if kind == "console"]
    for command in typed.splitlines():
        done = subprocess.run(
            ["bash", "-c", command], env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        shown[command.split(".")[0]] = done.stdout
    assert "NODES  2 alive" in shown["kernel exec cluster"] and "NODES  2 alive" in shown["kernel monitor cluster"]
    assert shown["kernel submit cluster"].endswith("2 nodes\n")
    assert (tmp_path / "back" / "program.py").read_text() == PROGRAM
    assert "nodes on 2 machines ended" in shown["kernel down cluster"]
