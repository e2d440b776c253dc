"""The tutorial is followed literally: its commands run, its code goes where it says, its program prints what it says.

That is one test, because each step stands on those before it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial-scheduler.md"
FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody who does what the page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.place = folder
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("KERNEL_") or "TMPDIR" in name
        }
        path = [str(self.site), *(entry for entry in sys.path if entry)]
        self.environment = {**clean, "PYTHONPATH": os.pathsep.join(path), "XDG_CACHE_HOME": str(folder / "cache")}

    def run(self, line: str) -> str:
        """Run a command of the page, with the Python of these tests; return what it printed."""
        if line.startswith("cd "):
            self.place = self.folder / line.removeprefix("cd ")
            return ""
        module, _, rest = line.partition(" ")
        modules = {"kernel": "kernel.cli.main"}
        command = [sys.executable, "-m", modules.get(module, module), *rest.split()]
        if module == "pip":  # into a folder of the test, not into the environment that runs it
            command += ["--quiet", "--target", str(self.site)]
        environment = dict(self.environment)
        if module == "pytest":
            environment["PYTHONPATH"] = f"{self.place}{os.pathsep}{environment['PYTHONPATH']}"
        result = subprocess.run(command, cwd=self.place, env=environment, capture_output=True, text=True, timeout=900)
        assert result.returncode == 0, f"{line}\n{result.stdout}\n{result.stderr}"
        return result.stdout

    def write(self, name: str, code: str) -> None:
        """Put code where the page says: into a new file, or over the definitions of the same names in an old one."""
        path = self.place / name
        path.write_text(merged(path.read_text(), code) if path.exists() else code)


def merged(old: str, new: str) -> str:
    """Return `old` with the functions and methods of `new` in the place of those of the same names, or added."""
    tree = ast.parse(old)
    for node in ast.parse(new).body:
        if isinstance(node, ast.ClassDef):
            theirs = next(item for item in tree.body if isinstance(item, ast.ClassDef) and item.name == node.name)
            for method in node.body:
                put(theirs.body, method, len(theirs.body))
        else:
            first_class = next(i for i, item in enumerate(tree.body) if isinstance(item, ast.ClassDef))
            put(tree.body, node, first_class)
    return ast.unparse(tree)


def put(body: list[ast.stmt], node: ast.stmt, otherwise: int) -> None:
    """Replace the definition of the same name in `body`, or insert it at the index `otherwise`."""
    names = [getattr(item, "name", "") for item in body]
    name = getattr(node, "name", "")
    if name in names:
        body[names.index(name)] = node
    else:
        body.insert(otherwise, node)


def test_the_tutorial_leads_where_it_says(tmp_path: Path) -> None:
    reader, shown, printed, failed_first = Reader(tmp_path), "", "", False
    for kind, name, text in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "console":
            for line in text.splitlines():
                reader.run(line)
        elif kind == "python":
            reader.write(name, text)
            if name == "tests/test_priority.py":
                with pytest.raises(AssertionError, match="2 failed"):
                    reader.run("pytest")
                failed_first = True
            elif name == "program.py":
                printed = subprocess.run(
                    [sys.executable, name], cwd=reader.place, env=reader.environment, stdout=subprocess.PIPE, text=True,
                    check=True, timeout=240,
                ).stdout  # fmt: skip
                reader.run("pytest")
        elif kind == "text":
            shown = text
    assert failed_first and shown and printed == shown
