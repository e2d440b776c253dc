"""Which actor of a pool works on what, and what comes next. A state machine: calls and waiting are the shell's."""

from __future__ import annotations

from collections import deque
from typing import Any


class ActorPoolState:
    """Idle actors, submissions that wait for one, and those that run or are done but not taken.

    Submissions have numbers, in the order in which they were made.
    """

    def __init__(self, actors: list[Any]) -> None:
        self.idle: deque[Any] = deque(actors)
        self.pending: deque[tuple[int, Any]] = deque()
        self.running: dict[int, Any] = {}
        """Number to actor."""
        self.done: dict[int, None] = {}
        """Numbers of those that are over and not taken, in the order in which they ended."""
        self._next = 0

    def submit(self, work: Any) -> int:
        """Take in a submission; return its number."""
        number, self._next = self._next, self._next + 1
        self.pending.append((number, work))
        return number

    def start(self) -> tuple[int, Any, Any] | None:
        """Return number, work and actor of the submission to start now, or None."""
        if not self.pending or not self.idle:
            return None
        number, work = self.pending.popleft()
        actor = self.idle.popleft()
        self.running[number] = actor
        return number, work, actor

    def finish(self, number: int, alive: bool = True) -> None:
        """Note that a submission is over, and whether its actor can be used again."""
        actor = self.running.pop(number)
        self.done[number] = None
        if alive:
            self.idle.append(actor)

    def hopeless(self) -> list[int]:
        """Return the submissions for which no actor is left; they are over."""
        if self.idle or self.running:
            return []
        numbers = [number for number, _ in self.pending]
        self.pending.clear()
        self.done.update(dict.fromkeys(numbers))
        return numbers

    def take(self, number: int) -> None:
        """Note that the result of a submission that is over was taken."""
        del self.done[number]

    def forget(self, number: int) -> None:
        """Give up a submission: its actor is idle at once, though it may still be at work."""
        if number in self.running:
            self.idle.append(self.running.pop(number))
        self.pending = deque(item for item in self.pending if item[0] != number)
        self.done.pop(number, None)

    def open(self) -> list[int]:
        """Return the numbers of all submissions that were not taken, in order."""
        return sorted([*(number for number, _ in self.pending), *self.running, *self.done])

    def members(self) -> list[Any]:
        """Return all actors."""
        return [*self.idle, *self.running.values()]
