"""Keeping the numbers of standard input, output and error free of what a session opens."""

from __future__ import annotations

import os


def occupy_standard_descriptors() -> None:
    """Open the null device wherever one of the descriptors 0, 1 and 2 is closed.

    Else a socket of the session would get that number: whatever this program, or a library of it, prints would be sent
    there, and a child could not inherit it, because it gets these three anew.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
