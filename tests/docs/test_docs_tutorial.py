"""The tutorial is followed literally: its commands run, its code goes where it says, its program prints what it says.

That is one test, because each step stands on those before it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorial-scheduler.md"
FENCE = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Reader:
    """Somebody who does what the page says, in a folder and a virtual environment of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = self.place = folder
        programs = folder / "venv" / "bin"
        ours = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KERNEL_", "PYTHON")) or "TMPDIR" in name
        }
        self.environment = {
            **ours,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "VIRTUAL_ENV": str(folder / "venv"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or os.path.expanduser("~/.cache/pip"),
        }
        venv.create(folder / "venv", with_pip=True, symlinks=True)
        # To build each distribution in isolation, by an old pip, and to compile all, would take ten times as long.
        self.run("pip install --upgrade pip hatchling")
        self.run(f'pip install --no-compile --no-build-isolation "{ROOT}[plugins,conformance]"')

    def run(self, line: str) -> str:
        """Run a command of the page in a shell; return what it printed."""
        if line.startswith("cd "):
            self.place = self.folder / line.removeprefix("cd ")
            return ""
        result = subprocess.run(
            line, shell=True, cwd=self.place, env=self.environment, capture_output=True, text=True, timeout=900
        )
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
                printed = reader.run(f"python {name}")
                reader.run("pytest")
        elif kind == "text":
            shown = text
    assert failed_first and shown and printed == shown
