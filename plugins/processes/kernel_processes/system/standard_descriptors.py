"""Keep the descriptors of standard input, output and error from being used for a session's sockets."""

from __future__ import annotations

import os


def occupy_standard_descriptors() -> None:
    """Open the null device wherever one of the descriptors 0, 1 and 2 is closed.

    Otherwise a socket of the session would get that number: text that this program or one of its libraries prints would
    be sent to the socket, and a child could not inherit it, because a child's first three descriptors are replaced.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
