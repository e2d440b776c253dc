"""Numbers of bytes as text."""

from __future__ import annotations


def readable(size: float) -> str:
    """Return a number of bytes as text, in a unit that keeps it short."""
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
