"""Find the members that hold up the others of a group: a decision about notes, without clocks or processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """That a member waits: for which ranks, in which operation, said how many seconds ago."""

    awaited: frozenset[int]
    operation: str
    age_seconds: float


def culprits(awaited: Iterable[int], notes: Mapping[int, Note], fresh_seconds: float) -> list[int]:
    """Return the ranks that the awaited ones wait for in the end: those that do not wait themselves.

    A note older than `fresh_seconds` does not count. When all wait for each other, the awaited ranks are returned.
    """
    first = sorted(set(awaited))
    found: set[int] = set()
    seen: set[int] = set()
    ahead = list(first)
    while ahead:
        rank = ahead.pop()
        if rank in seen:
            continue
        seen.add(rank)
        note = notes.get(rank)
        if note is None or note.age_seconds > fresh_seconds:
            found.add(rank)
        else:
            ahead.extend(note.awaited)
    return sorted(found) or first
