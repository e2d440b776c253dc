"""The interfaces that ownership and the table of tasks require: recipes of objects, and receivers of task events."""

from __future__ import annotations

from typing import Protocol

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.streams import ObjectStream
from kernel_engine.tasks.task import Task


class Recipes(Protocol):
    """Keeps the recipes of a process's stored objects. Under the process's lock."""

    def recover(self, entry: ObjectEntry) -> None:
        """Have a lost object made again; it fails if that can't be."""

    def drop(self, entry: ObjectEntry) -> None:
        """Forget the recipe of an object that is gone."""

    def value_freed(self, entry: ObjectEntry) -> None:
        """Take note that the value of an object is freed, while its recipe may still be needed."""

    def keep(self, task: Task) -> bool:
        """Keep a task that has ended as a recipe. Return whether it was kept; then its arguments stay referenced."""

    def keep_item(self, task: Task, entry: ObjectEntry) -> None:
        """Keep a generator as the recipe of one of its items."""

    def recover_items(self, stream: ObjectStream) -> None:
        """Make the items again that an ended generator should have yielded once more, and did not."""


class NoRecipes:
    """Keeps no recipes, for a process that loses no object."""

    def recover(self, entry: ObjectEntry) -> None:
        """Do nothing: no object is lost."""

    def drop(self, entry: ObjectEntry) -> None:
        """Do nothing: no recipe is kept."""

    def value_freed(self, entry: ObjectEntry) -> None:
        """Do nothing: no value is made again."""

    def keep(self, task: Task) -> bool:
        """Return False: no recipe is kept."""
        return False

    def keep_item(self, task: Task, entry: ObjectEntry) -> None:
        """Do nothing: no recipe is kept."""

    def recover_items(self, stream: ObjectStream) -> None:
        """Do nothing: no object is lost."""


class TaskEvents(Protocol):
    """Receives the events of tasks. Called under the process's lock."""

    def task_ended(self, task: Task) -> None:
        """Let what the task ran on run others."""

    def run_again(self, task: Task) -> None:
        """Run a task again that has failed and may be retried."""
