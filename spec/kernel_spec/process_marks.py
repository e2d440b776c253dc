"""Know a process again by a variable of its environment: process ids are used again, such a mark is not.

For node providers whose machines are processes, and for others that have to find again what they have started.
"""

from __future__ import annotations

from pathlib import Path


def has_mark(pid: int, variable: str, value: str) -> bool:
    """Return whether a living process was started with this variable in its environment.

    A process that becomes another program shows no environment for a moment; it counts as marked.
    """
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    if environment:
        return f"{variable}={value}".encode() in environment.split(b"\0")
    return state not in ("Z", "X")
