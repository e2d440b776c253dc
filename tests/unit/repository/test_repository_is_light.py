"""The repository holds sources: what was built or downloaded stays out, as each clone would carry it for ever."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("kernel", "plugins", "spec", "tests", "docs", "examples", "benchmarks", "tools")
MOST_BYTES = 300_000
"""A screenshot of the documents is the largest file."""


def test_no_file_among_the_sources_is_large() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file()]
    sources = [file for file in files if not {"__pycache__", "build", "dist"} & set(file.parts)]
    assert len(sources) > 1_000
    large = {str(file.relative_to(ROOT)): size for file in sources if (size := file.stat().st_size) > MOST_BYTES}
    assert not large, f"these files are larger than {MOST_BYTES:,} bytes: {large}"
