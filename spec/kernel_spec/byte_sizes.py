"""Amounts of bytes for people."""

from __future__ import annotations


def readable(size: float) -> str:
    """Return bytes in the unit people think in."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
