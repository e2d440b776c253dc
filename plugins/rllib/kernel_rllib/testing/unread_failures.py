"""Collect the reports of a session about failed calls whose results were never read."""

from __future__ import annotations

import time

import kernel

MARK = "_fails()"
"""The call that fails on purpose."""


def unread_failures(seconds: float = 30.0) -> list[str]:
    """Return the names of all such calls of the session so far; the last one is `MARK`, called here.

    All that failed before is told of when that is.

    Args:
        seconds: The number of seconds to wait for it.

    Raises:
        TimeoutError: If it is not told of in this time.
    """
    before = _told().count(MARK)
    kernel.remote(num_cpus=0)(_fails).remote()
    end = time.monotonic() + seconds
    while (told := _told()).count(MARK) == before:
        if time.monotonic() > end:
            raise TimeoutError(f"a call that failed is not told of after {seconds:g} s; told of are {told}")
        time.sleep(0.05)
    return told


def _fails() -> None:
    raise ValueError("on purpose")


def _told() -> list[str]:
    return [row["name"] for row in kernel.errors()]
