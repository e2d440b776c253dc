"""The ledger of RLlib's requirements accounts for each row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

LEDGER = Path(__file__).resolve().parents[2] / "docs" / "rllib-ledger.md"
ROW = re.compile(r"(?:\b(RLLA|RLLB|ALGO|TRNA|BOOK|V022|E)-?)?\b(\d{3})(?:\.\.(\d{3}))?\b")


def rows_named() -> set[tuple[str, int]]:
    """Return the rows that the first cells of tables name: (document, number)."""
    found: set[tuple[str, int]] = set()
    for line in LEDGER.read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            continue
        cells = line.split("|")
        document = ""
        for name, first, last in ROW.findall(cells[2] if cells[1].strip() == "not here" else cells[1]):
            document = name or document
            found |= {(document, number) for number in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize(
    ("document", "first", "last"),
    [("RLLA", 1, 334), ("RLLB", 1, 285), ("ALGO", 1, 217), ("TRNA", 1, 108), ("BOOK", 160, 262)],
)
def test_each_row_has_a_line(document: str, first: int, last: int) -> None:
    named = rows_named()
    missing = [number for number in range(first, last + 1) if (document, number) not in named]
    assert not missing, f"docs/rllib-ledger.md has no line for these rows of {document}: {missing}"
