"""The map in docs/index.md is true: its lines are imports, and its floors those of the layers."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "index.md"
HOUSE = runpy.run_path(str(Path(__file__).with_name("test_import_layers.py")))
LINES = {
    "│": "ud", "─": "lr", "┌": "dr", "┐": "dl", "└": "ur", "┘": "ul", "├": "udr", "┤": "udl", "┬": "dlr", "┴": "ulr",
    "┼": "udlr",
}  # fmt: skip
"""Each character of a line to the directions in which it goes on: up, down, left, right."""
STEPS = {"u": (-1, 0, "d"), "d": (1, 0, "u"), "l": (0, -1, "r"), "r": (0, 1, "l")}
PACKAGES = {
    "spec": ROOT / "spec" / "kernel_spec",
    "kernel": ROOT / "kernel",
    **{path.parents[1].name: path.parent for path in sorted(ROOT.glob("plugins/*/kernel_*/__init__.py"))},
}
"""Each name in the picture, and its package."""


@dataclass(frozen=True)
class Picture:
    """The names in a picture, and each pair of them of which the upper one stands on the lower one by a line."""

    names: frozenset[str]
    lines: frozenset[tuple[str, str]]

    def below(self, name: str) -> set[str]:
        """Return all that a name stands on, by whatever stands between."""
        direct = {lower for upper, lower in self.lines if upper == name}
        return direct.union(*(self.below(lower) for lower in direct))


def read_picture(text: str) -> Picture:
    """Read names that are joined by lines. Names with one space between them are a group, which a line joins as one.

    Raises ValueError for a line that ends at nothing.
    """
    rows = text.splitlines()
    groups = {
        (number, column): tuple(match[0].split())
        for number, row in enumerate(rows)
        for match in re.finditer(r"\w+(?: \w+)*", row)
        for column in range(*match.span())
    }
    lines, seen = set(), set()
    for start in [(number, column) for number, row in enumerate(rows) for column in range(len(row))]:
        if start in seen or rows[start[0]][start[1]] not in LINES:
            continue
        above, below, pending = set(), set(), [start]
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            for way in LINES[rows[place[0]][place[1]]]:
                down, right, back = STEPS[way]
                there = place[0] + down, place[1] + right
                if way in "ud" and there in groups:
                    (above if way == "u" else below).update(groups[there])
                elif back in _ways(rows, there):
                    pending.append(there)
                else:
                    raise ValueError(f"a line ends at nothing: row {place[0] + 1}, column {place[1] + 1}")
        lines |= {(upper, lower) for upper in above for lower in below}
    return Picture(frozenset(name for names in groups.values() for name in names), frozenset(lines))


def _ways(rows: Sequence[str], place: tuple[int, int]) -> str:
    row, column = place
    inside = 0 <= row < len(rows) and 0 <= column < len(rows[row])
    return LINES.get(rows[row][column], "") if inside else ""


def imported() -> Iterator[tuple[str, str]]:
    """Yield each pair of distributions of which the first imports the second.

    A module that is named in a string, to be imported where it is installed, is no import, nor is one that NAMED has.
    """
    name_of = {package.name: name for name, package in PACKAGES.items()}
    for name, package in PACKAGES.items():
        for arrow in HOUSE["arrows_here"](package):
            target = name_of.get(arrow.target.partition(".")[0], name)
            if target != name and not arrow.named and (arrow.source, arrow.target) not in HOUSE["NAMED"]:
                yield name, target


def drawn() -> Picture:
    """Return the picture of the page."""
    (picture,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return read_picture(picture)


def test_every_distribution_is_in_the_picture() -> None:
    names = drawn().names
    assert names == set(PACKAGES), f"add or remove in the picture of {PAGE.name}: {sorted(names ^ set(PACKAGES))}"


def test_every_line_is_an_import_and_every_import_a_way_down() -> None:
    picture, real = drawn(), set(imported())
    unused = sorted(picture.lines - real)
    assert not unused, f"lines without an import: {unused}"
    missing = sorted((upper, lower) for upper, lower in real if lower not in picture.below(upper))
    assert not missing, f"imports without a way down in the picture: {missing}"


def test_floors_are_those_of_the_layers() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.+\| (\S.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = {name: [sorted(floor.split()) for floor in floors.split(" / ")] for name, floors in rows}
    real = {}
    for package, layers in HOUSE["LAYERS"].items():
        folders = [sorted(part for part in layer if (_folder(package) / (part or "-")).is_dir()) for layer in layers]
        real[package.removeprefix("kernel_")] = [floor for floor in reversed(folders) if floor]
    wrong = [
        f"{name}: {' / '.join(map(' '.join, floors))}" for name, floors in real.items() if shown.get(name) != floors
    ]
    assert not wrong and set(shown) == set(real), f"say it in {PAGE.name} as LAYERS does: {wrong}"


def _folder(package: str) -> Path:
    return PACKAGES[package.removeprefix("kernel_")]


def test_a_place_begins_with_a_distribution() -> None:
    named = re.findall(r"`(\w+): ([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 5
    assert [(name, path) for name, path in named if not (PACKAGES[name] / path).is_file()] == []


# -- the test's own tests ------------------------------------------------------------------------------------------

SMALL = """
  a   b    c d
  └─┬─┘     │
    e   f   │
    └─┬─┘   │
      g ────┘
"""


def test_a_line_joins_what_it_touches_from_above_and_from_below() -> None:
    picture = read_picture(SMALL.replace(" ────┘", "\n").replace("└─┬─┘   │", "└─┬─┴───┘"))
    assert picture.names == set("abcdefg")
    assert picture.lines == {("a", "e"), ("b", "e"), *((name, "g") for name in "cdef")}
    assert picture.below("a") == {"e", "g"}


def test_a_line_that_ends_at_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="a line ends at nothing: row 6, column 9"):
        read_picture(SMALL)
