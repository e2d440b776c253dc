"""docs/serve-session.md is typed, line by line: files are written, commands run in one shell, outputs compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernel.testing.command_line import COMMAND
from kernel.testing.ports import free_port
from kernel.testing.programs import need
from kernel.testing.session import temporary_root

PAGE = Path(__file__).resolve().parents[3] / "docs" / "serve-session.md"
FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "<<<command {}>>>"


def fits(printed: str, shown: str) -> bool:
    """Return whether the output is what the page shows, in which `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def typed_of(text: str) -> list[tuple[str, str]]:
    """Return the commands of a block of the page, each with the output that it shows."""
    found = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)
    return list(zip(found[1::2], found[2::2], strict=True))


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in which the commands are those of this installation."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name, module in {"kernel": "kernel.cli.main", "serve": "kernel_serve.cli.main"}.items():
        (programs / name).write_text(f"#!{sys.executable}\nfrom {module} import main\n\nmain()\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL_")}
    return {**clean, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": path}


def test_the_session_goes_as_the_page_shows(tmp_path: Path, shell: dict[str, str]) -> None:
    need("curl")
    text = PAGE.read_text(encoding="utf-8")
    for port in ("8000", "9000"):
        text = re.sub(rf"\b{port}\b", str(free_port()), text)
    place = tmp_path / "place"
    place.mkdir()
    typed: list[tuple[str, str]] = []
    for kind, name, block in FENCE.findall(text):
        if kind == "console":
            typed += typed_of(block)
        else:
            (place / name).write_text(block)
    script = "".join(f"echo '{MARK.format(number)}'\n{command}\n" for number, (command, _) in enumerate(typed))
    with temporary_root() as root:
        environment = {**shell, "KERNEL_TMPDIR": root}
        try:
            done = subprocess.run(
                ["bash", "-O", "expand_aliases", "-s"], input=script, env=environment, cwd=place, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=500,
            )  # fmt: skip
        finally:
            subprocess.run([*COMMAND, "stop"], env=environment, capture_output=True, timeout=120)
    printed = re.split(r"<<<command \d+>>>\n", done.stdout)[1:]
    assert len(printed) == len(typed) > 20, done.stdout
    wrong = [
        f"$ {command}\nshown:\n{shown}\nprinted:\n{output}"
        for (command, shown), output in zip(typed, printed, strict=True)
        if not fits(output, shown)
    ]
    assert not wrong, "\n".join(wrong)
