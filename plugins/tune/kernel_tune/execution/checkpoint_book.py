"""The choice of checkpoints of a trial that are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernel_runs.reports import TRAINING_ITERATION, Report, look_up
from kernel_tune.trainable.orders import Saved


@dataclass
class Kept:
    """Describes a checkpoint on disk, its score, and the result after which it was saved."""

    saved: Saved
    score: float
    order: int
    metrics: Report = field(default_factory=dict)
    results: int = 0
    """The number of results that the trial had reported."""
    users: int = 0
    """The number of trials that continue from it."""


class CheckpointBook:
    """Holds the kept checkpoints of one trial, oldest first.

    With `keep` (at least 1) the best by `score_attribute` are kept, and always the newest, from which the trial
    continues after a failure. `lowest`, or `min-` before the attribute, means that smaller values are better.
    """

    def __init__(self, keep: int | None = None, score_attribute: str | None = None, lowest: bool = False) -> None:
        if keep is not None and keep < 1:
            raise ValueError(f"keep_checkpoints_num is {keep}: it is at least 1, or None to keep all")
        attribute = score_attribute or TRAINING_ITERATION
        self.lowest = lowest or attribute.startswith("min-")
        self.attribute = attribute.removeprefix("min-").removeprefix("max-")
        self.keep = keep
        self.kept: list[Kept] = []
        self._count = 0

    def add(self, saved: Saved, result: Report, results: int) -> list[Saved]:
        """Add a checkpoint. Return those to delete. A result without the attribute has the worst score."""
        value = look_up(result, self.attribute)
        score = float("-inf")
        if isinstance(value, (int, float)) and value == value:
            score = -float(value) if self.lowest else float(value)
        same = [kept for kept in self.kept if kept.saved.path == saved.path]
        self.kept = [kept for kept in self.kept if kept.saved.path != saved.path]
        users = same[0].users if same else 0
        self.kept.append(Kept(saved, score, self._count, dict(result), results, users))
        self._count += 1
        return self._drop()

    def forget(self, path: str) -> None:
        """Remove a damaged checkpoint."""
        self.kept = [kept for kept in self.kept if kept.saved.path != path]

    def _drop(self) -> list[Saved]:
        if self.keep is None:
            return []
        newest = self.kept[-1]
        free = [kept for kept in self.kept if not kept.users and kept is not newest]
        free.sort(key=lambda kept: (kept.score, kept.order))
        dropped = []
        while len(self.kept) > self.keep and free and (len(self.kept) > self.keep + 1 or free[0].score <= newest.score):
            worst = free.pop(0)
            self.kept.remove(worst)
            dropped.append(worst.saved)
        return dropped

    @property
    def newest(self) -> Kept | None:
        """The newest checkpoint, or None."""
        return self.kept[-1] if self.kept else None

    @property
    def best(self) -> Kept | None:
        """The checkpoint with the best score, the newer of equals, or None."""
        return max(self.kept, key=lambda kept: (kept.score, kept.order), default=None)
