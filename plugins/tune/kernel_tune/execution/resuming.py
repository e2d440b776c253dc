"""Which experiment is resumed, and which of its trials run again."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = ("AUTO", "PROMPT", "LOCAL", "REMOTE")
CHANGES = ("ERRORED", "RESTART_ERRORED", "ERRORED_ONLY", "RESTART_ERRORED_ONLY", "ONLY")


@dataclass(frozen=True)
class Resume:
    """Holds a parsed `resume`. `source` is one of SOURCES, or "" for a new experiment."""

    source: str = ""
    retries: bool = False
    """Whether failed trials run again: from their last checkpoint, or `anew`."""
    anew: bool = False
    drops: bool = False
    """Whether unfinished trials are ended."""


def parse_resume(given: bool | str | None) -> Resume:
    """Parse `resume`: a bool, one of SOURCES, one of CHANGES (of the local experiment), or both as in `AUTO+ERRORED`.

    Raises ValueError for anything else.
    """
    if given is None or given is False:
        return Resume()
    words = str("LOCAL" if given is True else given).upper().replace("LOCAL_ONLY", "LOCAL+ONLY").split("+")
    source = words.pop(0) if words[0] in SOURCES else "LOCAL"
    if len(words) > 1 or not set(words) <= set(CHANGES):
        raise ValueError(
            f"resume is {given!r}: it is True, False, one of {', '.join(SOURCES)}, one of {', '.join(CHANGES[:-1])}, "
            "or two of these such as 'AUTO+ERRORED'"
        )
    change = "".join(words)
    return Resume(source, "ERRORED" in change, "RESTART" in change, "ONLY" in change)
