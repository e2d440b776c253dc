"""The kernel stays small: what grows is an engine, a back end or a library, in a distribution of its own."""

from __future__ import annotations

from pathlib import Path

KERNEL = Path(__file__).resolve().parents[3] / "kernel"
MOST_LINES = 10_000


def test_the_kernel_has_at_most_ten_thousand_lines() -> None:
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in KERNEL.rglob("*.py"))
    assert 1_000 < lines <= MOST_LINES, f"kernel/ has {lines} lines: CONTRIBUTING.md says where a new thing goes"
