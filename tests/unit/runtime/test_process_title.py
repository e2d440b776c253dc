"""What of a text fits where `ps` reads it."""

from __future__ import annotations

import pytest

from kernel.runtime.process_title import fitting


@pytest.mark.parametrize(
    ("text", "size", "data"),
    [
        ("idle", 10, b"idle"),
        ("idle", 2, b"id"),
        ("üü", 4, b"\xc3\xbc\xc3\xbc"),
        ("üü", 3, b"\xc3\xbc"),
        ("aüü", 3, b"a\xc3\xbc"),
        ("\ud800", 5, b"?"),
        ("ü", 0, b""),
    ],
)
def test_a_character_is_there_whole_or_not_at_all(text: str, size: int, data: bytes) -> None:
    assert fitting(text, size) == data
