"""The first screen of docs/cluster.md is typed, line by line, and so is the program outside."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from kernel.testing.command_line import COMMAND, CommandLine
from kernel.testing.session import temporary_root

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
SECONDS = 240.0


def test_the_first_screen_makes_a_cluster_that_a_program_uses(tmp_path: Path) -> None:
    first = PAGE.read_text(encoding="utf-8").split("\n## First, on one machine\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```(\w+)\n(.*?)```", first, re.DOTALL)
    (program,) = [text for kind, text in blocks if kind == "python"]
    (tmp_path / "where.py").write_text(program)
    shown = []
    with temporary_root() as root:
        line = CommandLine(root)
        place = "127.0.0.1:6380"
        for typed in "".join(text for kind, text in blocks if kind == "console").splitlines():
            *settings, command = re.findall(r"^KERNEL_ADDRESS=\S+|(?<!\S)(?:kernel|python) .*", typed)
            name, *arguments = shlex.split(command.replace("127.0.0.1:6380", place))
            if name == "kernel":
                done = line.run(*arguments)
            else:
                extra = dict(setting.split("=") for setting in settings)
                done = subprocess.run(
                    [sys.executable, *arguments],
                    env={**line.environment, **extra},
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                )
            shown.append(done.stdout)
            assert done.returncode == 0, (typed, done.stderr)
            if listens := re.search(r"the head listens at (\S+)", done.stdout):
                place = listens[1]  # another one, where the usual port is taken
        line.end()
    assert "NODES  2 alive" in shown[2]
    assert re.fullmatch(r"ran on [12] of 2 nodes\n", shown[3])
    assert "a node of the cluster at" in shown[4] and "the cluster goes on" in shown[4]


def test_the_program_outside_uses_the_cluster(tmp_path: Path) -> None:
    part = PAGE.read_text(encoding="utf-8").split("\n## Programs outside\n")[1].split("\n## ")[0]
    (program, typed, shown) = (text for kind, text in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL))
    with temporary_root() as root, temporary_root() as elsewhere:
        line = CommandLine(root)
        place = line.start("--port", "0")["address"]
        line.join(place)
        (tmp_path / "outside.py").write_text(program.replace("127.0.0.1:6380", place))
        commands = typed.replace("kernel token", f"{shlex.join(COMMAND)} token")
        commands = commands.replace(" python ", f" KERNEL_TMPDIR={elsewhere} {sys.executable} ")
        done = subprocess.run(
            ["bash", "-ec", commands],
            env=line.environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        line.end()
    assert done.stdout.endswith(shown), done.stderr
