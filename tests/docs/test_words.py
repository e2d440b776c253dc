"""The glossary is true: each word stands in it once, in order, and what it names is where it says, and nowhere else."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "words.md"
ROW = re.compile(r"\| ([^|`]+) \| ([^|]+) \| (?:`(\w+)` in )?`([\w/.]+)` \|")
PACKAGES = ("kernel", "spec/kernel_spec", "plugins/*/kernel_*")


def rows() -> list[tuple[str, str, str, str]]:
    """Return word, meaning, class (perhaps none) and path of each row."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    matches = [(line, ROW.fullmatch(line)) for line in lines]
    assert [line for line, match in matches if match is None] == [], "a row is: | word | meaning | `Class` in `path` |"
    return [(match[1], match[2], match[3] or "", match[4]) for _, match in matches if match is not None]


@cache
def classes() -> dict[str, list[str]]:
    """Return each class of the distributions to the files that define one of that name."""
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for file in sorted(path for folder in ROOT.glob(package) for path in folder.rglob("*.py")):
            for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
                found.setdefault(name, []).append(str(file.relative_to(ROOT)))
    return found


def test_words_are_in_order_and_each_stands_there_once() -> None:
    words = [word for word, *_ in rows()]
    assert len(words) >= 30
    assert words == sorted(set(words))


@pytest.mark.parametrize(("word", "meaning", "name", "path"), rows(), ids=[row[0] for row in rows()])
def test_what_a_word_names_is_there_once(word: str, meaning: str, name: str, path: str) -> None:
    assert meaning.endswith(".") and len(re.findall(r"\.(?: |$)", meaning)) <= 3, "a few plain sentences"
    assert (ROOT / path).exists(), f"{word}: there is no {path}"
    if name:
        assert classes().get(name) == [path], f"{word}: {name} should be defined in {path}, and nowhere else"


@pytest.mark.parametrize("page", ["docs/index.md", "CONTRIBUTING.md"])
def test_the_glossary_is_found(page: str) -> None:
    assert "words.md)" in (ROOT / page).read_text(encoding="utf-8")
