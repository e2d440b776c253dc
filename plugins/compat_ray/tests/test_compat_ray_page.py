"""The page for those who come from Ray says what the table says."""

from __future__ import annotations

import runpy
from pathlib import Path

from kernel_compat_ray import command_words, names, option_names

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "migrating.md").read_text(encoding="utf-8")


def test_the_tables_of_the_page_are_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "make_migrating.py"))
    assert made["page"](PAGE) == PAGE, "it is out of date; run: python docs/make_migrating.py"


def test_every_name_is_on_the_page() -> None:
    listed = [name for found in names.NAMES.values() for name in found if name != "*"]
    listed += [*names.RENAMED, *names.REFUSED, *names.MODULES_REFUSED, *names.LIBRARIES]
    listed += [*option_names.OPTIONS_RENAMED, *option_names.INIT_IGNORED, *option_names.INIT_REFUSED]
    listed += [f"ray {command}" for command in command_words.COMMANDS]
    assert [name for name in listed if f"`{name}`" not in PAGE] == []
