"""What a page's programs import is part of kernel[plugins], or the page says what to install."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from import_statements import import_statements
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "plugins").glob("*/README.md"))]
PROGRAM = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```\w+[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = {
    "conformance": r"kernel\.conformance\b|kernel plugins (new|check)",
    "simulation": r"kernel simulate",
    "testing": r"kernel\.testing\b",
}
"""What kernel[plugins] does not bring: extra to what a page uses of it, in its programs and commands."""
OURS = ("kernel", "ray", "words_pb2")
"""What is ours, or made by the page itself."""


def required(name: str, extras: tuple[str, ...], found: set[str]) -> set[str]:
    """Return the distributions that one needs with these extras, and those that these need."""
    for line in importlib.metadata.distribution(name).requires or ():
        wanted = Requirement(line)
        applies = wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in (*extras, ""))
        if applies and wanted.name.lower() not in found:
            found.add(wanted.name.lower())
            required(wanted.name, tuple(wanted.extras), found)
    return found


@cache
def brought_by_plugins() -> set[str]:
    """Return the distributions that come with kernel[plugins]."""
    return required("kernel", ("plugins",), set())


@cache
def owners_of_modules() -> Mapping[str, list[str]]:
    """Return the distributions that hold each module; reading them all takes half a second."""
    return importlib.metadata.packages_distributions()


def imported(text: str) -> Iterator[str]:
    """Yield the top-level modules of others that the programs of a page import."""
    for block in PROGRAM.findall(text):
        try:
            tree = ast.parse(block)
        except SyntaxError:  # an excerpt
            continue
        for node, _ in import_statements(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module] if node.module and not node.level else []
            for top in {name.partition(".")[0] for name in names}:
                if top not in sys.stdlib_module_names and not top.startswith(OURS):
                    yield top


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_it_needs_besides_kernel(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    brought, owners = brought_by_plugins(), owners_of_modules()
    for module in set(imported(text)):
        owner = {name.lower() for name in owners.get(module, [module])}
        named = any(re.search(rf"pip install[^`]*\b{re.escape(name)}\b", text) for name in owner)
        assert owner & brought or named, f"say on {page.name} that it needs: pip install {' or '.join(owner)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_says_what_brings_a_part_of_ours_that_plugins_leaves_out(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = "".join(BLOCK.findall(text))
    for extra, uses in LEFT_OUT.items():
        assert f"kernel-{extra}" not in brought_by_plugins()
        named = re.search(rf"pip install[^`]*\[[\w,]*\b{extra}\b", text)
        assert named or not re.search(uses, blocks), f'say on {page.name} that it needs: pip install ".[{extra}]"'


def test_a_page_that_needs_more_is_found() -> None:
    assert set(imported("```python\nimport sklearn.base\nfrom os import path\nimport kernel\n```\n")) == {"sklearn"}


def rows_on_installing() -> dict[str, str]:
    """Return the rows of the tables on installing: first cell to second."""
    text = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", text, re.MULTILINE))


def test_extras_on_installing_are_there_and_bring_what_they_say() -> None:
    rows, smallest = rows_on_installing(), required("kernel", ("network_tcp",), set())
    known = set(importlib.metadata.metadata("kernel").get_all("Provides-Extra") or ())
    for cell, brings in rows.items():
        for extra in re.findall(r"`(\w+)`", cell) + re.findall(r"\[(\w+)\]", cell):
            assert {extra, extra.replace("_", "-")} & known, extra
            if "what `network_tcp` brings" in brings:
                assert required("kernel", (extra,), set()) >= smallest, extra
    assert smallest > required("kernel", ("processes",), set())
    assert sum("what `network_tcp` brings" in brings for brings in rows.values()) >= 4


def test_plugins_on_installing_are_those_that_come() -> None:
    text = rows_on_installing()['`pip install ".[plugins]"`']
    more = brought_by_plugins() - required("kernel", ("processes",), set())
    ours = {name.removeprefix("kernel-") for name in more if name.startswith("kernel-")}
    words = {
        "accelerator-nvidia": "NVIDIA",
        "control-grpc": "gRPC",
        "metadata-sqlite": "SQLite",
        "serve-http2": "HTTP/2",
    }
    unnamed = {name for name in ours if words.get(name, name.rpartition("-")[2]) not in text}
    assert ours and not unnamed
