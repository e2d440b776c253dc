"""Every Python block of the README and the documentation is run, and prints what the page says it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from kernel.testing.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial-scheduler.md"  # its blocks are files: test_docs_tutorial.py builds them
SESSION = ROOT / "docs" / "serve-session.md"  # so are its: test_serve_session_page.py types it
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "<<<block {}>>>"
SECONDS = 500.0
"""What all blocks of a page may take together."""

SERVED = "127.0.0.1:8000"
"""Where pages find what they serve. Their programs use another port, since several run at a time."""


@dataclass(frozen=True)
class Block:
    """A Python block of a page: where it is, its text, and what the page shows as its output (None: nothing)."""

    line: int
    code: str
    shown: str | None


def blocks_of(page: Path) -> list[Block]:
    """Return the Python blocks of a page, each with the text block that follows it directly."""
    text = page.read_text(encoding="utf-8")
    fences = list(FENCE.finditer(text))
    found = []
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] == "python":
            directly = (
                following is not None and following[1] == "text" and not text[fence.end() : following.start()].strip()
            )
            line = text.count("\n", 0, fence.start()) + 2
            found.append(Block(line, fence[2], following[2] if following is not None and directly else None))
    return found


PAGES = [
    page
    for page in [
        ROOT / "README.md",
        ROOT / "plugins" / "engine" / "README.md",
        ROOT / "plugins" / "local_mode" / "README.md",
        ROOT / "plugins" / "parallel" / "README.md",
        ROOT / "plugins" / "processes" / "README.md",
        ROOT / "plugins" / "rllib" / "README.md",
        ROOT / "plugins" / "runs" / "README.md",
        ROOT / "plugins" / "serve" / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "examples").glob("*.md")),
    ]
    if page not in (TUTORIAL, SESSION) and blocks_of(page)
]


def script_of(blocks: list[Block]) -> str:
    """Return one program: the blocks in order, each announced on standard output."""
    parts = [f"print({MARK.format(number)!r}, flush=True)\n{block.code}" for number, block in enumerate(blocks)]
    return "\n".join(parts)


def fits(printed: str, shown: str) -> bool:
    """Return whether the output is what the page shows, in which `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.rstrip().split("..."))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    program = tmp_path / "page.py"
    port = free_port()
    program.write_text(script_of(blocks).replace(SERVED, f"127.0.0.1:{port}"), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KERNEL_") or "TMPDIR" in name}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    own = {"PYTHONBREAKPOINT": "0"}  # nobody attaches to them
    own |= {"KERNEL_SERVE_HTTP_PORT": str(port), "TUNE_RESULT_DIR": str(tmp_path / "kernel_results")}
    environment = {**clean, "PYTHONPATH": path, **own}
    command = [sys.executable, str(program)]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS)
    printed = re.split(r"<<<block \d+>>>\n", result.stdout)[1:]
    for block, output in zip(blocks, printed, strict=False):
        if block.shown is not None:
            where = f"{page.relative_to(ROOT)}:{block.line}"
            assert fits(output, block.shown), (
                f"{where}\nshown:\n{block.shown}\nprinted:\n{output}\n{result.stderr[-3000:]}"
            )
    assert result.returncode == 0 and len(printed) == len(blocks), result.stdout[-1000:] + result.stderr[-3000:]


def test_the_pages_with_programs_are_among_them() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "users.md", "plugins.md"} <= names
