"""The path of a checkpoint, as programs of all generations look at it."""

from __future__ import annotations

from kernel_runs.checkpoint import Checkpoint


class SavedPath(str):
    """The path itself, a text; and an object whose `checkpoint.path` is that path."""

    __slots__ = ()

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint at the path."""
        return Checkpoint.from_directory(str(self))
