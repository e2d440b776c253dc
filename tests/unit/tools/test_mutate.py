"""The tool that tells how much tests notice: the mistakes that it makes, and which of them tests see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mutants import mutants_of

REPOSITORY = Path(__file__).resolve().parents[3]

MODULE = '''"""A module."""

LIMIT = 3


def is_more(numbers: list[int], least: int = LIMIT) -> bool:
    """Say whether there are more."""
    count = 0
    while count < len(numbers):
        count += 1
    return count > least
'''
SEEING = """from shop.counting import is_more


def test_more():
    assert [is_more([0] * count) for count in (2, 3, 4)] == [False, False, True]
    assert not is_more([], 0)
"""
BLIND = """from shop.counting import is_more


def test_more():
    assert is_more
"""


def mistakes(source: str) -> list[str]:
    """Return the lines that mutants of one line have instead."""
    found = mutants_of(source)
    assert all(each.source != source for each in found)
    return [each.source.splitlines()[each.line - 1].strip() for each in found]


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("return a == b", {"return a != b", "return None"}),
        ("return a < b <= c", {"return a <= b <= c", "return a < b < c", "return None"}),
        ("return a is not b", {"return a is b", "return None"}),
        ("return (a) in (b)", {"return (a) not in (b)", "return None"}),
        ("return a and b or c", {"return a or b or c", "return a and b and c", "return None"}),
        ("return not a", {"return (a)", "return None"}),
        ("return a + b", {"return a - b", "return None"}),
        ("a.b = c * 2", {"a.b = c + 2", "a.b = c * 3", "pass"}),
        ("a.b += 1", {"a.b += 2", "pass"}),
        ("a(b, c=True)", {"a(b, c=False)", "pass"}),
        ("raise a", {"pass"}),
        ("a = 'ä', b == c", {"a = 'ä~', b == c", "a = 'ä', b != c"}),
        ("a = f'{b} is'", {"a = f'~{b} is'"}),
        ("a = [b for b in c if b]", {"a = [b for b in c if not (b)]"}),
        ("a = b if c else d", {"a = b if not (c) else d"}),
        ("assert a == 1", set()),
        ("a: int | None = b", set()),
        ("'a text that is no value'", set()),
    ],
)
def test_each_mutant_has_one_mistake(line: str, instead: set[str]) -> None:
    assert set(mistakes(f"def f(a, b, c, d) -> int | None:\n    '''Docs.'''\n    {line}\n")) == instead


def test_outside_of_functions_only_numbers_are_changed() -> None:
    source = "import a\nfrom b import c\nD: float = 1.5\nE = 'text'\nclass F(c):\n    g: bool = False\n    h = a | c\n"
    assert mistakes(source) == ["D: float = 2.5", "g: bool = True"]


def test_the_line_of_a_mistake_is_shown_as_a_diff() -> None:
    (found,) = [each for each in mutants_of(MODULE) if each.what == "< is <="]
    assert found.diff(MODULE, "counting.py").splitlines()[:2] == ["--- counting.py", "+++ counting.py"]
    changed = [line for line in found.diff(MODULE, "counting.py").splitlines()[3:] if line[0] in "-+"]
    assert changed == ["-    while count < len(numbers):", "+    while count <= len(numbers):"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A package with a module that may be mutated."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "counting.py").write_text(MODULE)
    (tmp_path / "conftest.py").write_text(
        "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n"
    )
    return folder


def mutate(shop: Path, test: str, *options: str) -> tuple[int, str]:
    """Run the tool with a test; return its exit status, and what it says."""
    tests = shop.parent / "test_counting.py"
    tests.write_text(test)
    command = [
        sys.executable,
        str(REPOSITORY / "tools" / "mutate.py"),
        str(shop / "counting.py"),
        "--tests",
        str(tests),
    ]
    done = subprocess.run([*command, "--count", "99", *options], capture_output=True, text=True, timeout=600)
    assert (shop / "counting.py").read_text() == MODULE
    return done.returncode, done.stdout + done.stderr


def test_tests_that_look_kill_all_mutants_also_one_that_never_ends(shop: Path) -> None:
    code, said = mutate(shop, SEEING, "--timeout", "8")
    assert code == 0, said
    assert "killed (stuck): line 10, dropped count += 1" in said and "SURVIVED" not in said
    count = len(mutants_of(MODULE))
    assert said.endswith(f"killed {count} of {count}\n")


def test_what_survives_is_shown(shop: Path) -> None:
    code, said = mutate(shop, BLIND)
    assert code == 1, said
    assert "SURVIVED: line 11, > is >=\n" in said
    assert "-    return count > least\n+    return count >= least\n" in said


def test_the_same_seed_makes_the_same_mutants(shop: Path) -> None:
    first, again, other = (mutate(shop, BLIND, "--list", "--seed", seed)[1] for seed in ("1", "1", "2"))
    assert first == again != other


def test_tests_that_fail_anyhow_are_no_measure(shop: Path) -> None:
    code, said = mutate(shop, "def test_nothing():\n    assert False\n")
    assert code == 2 and said.endswith("the tests fail without any mutant\n"), said
