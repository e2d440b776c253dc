"""What ownership and the table of tasks require of others: recipes of objects, and receivers of task events."""

from __future__ import annotations

from typing import Protocol

from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.streams import ObjectStream
from kernel_engine.tasks.task import Task


class Recipes(Protocol):
    """The recipes of a process's stored objects. Under the process's lock."""

    def recover(self, entry: ObjectEntry) -> None:
        """Have a lost object made again; it fails if that can't be."""

    def drop(self, entry: ObjectEntry) -> None:
        """Forget the recipe of an object that is gone."""

    def value_freed(self, entry: ObjectEntry) -> None:
        """Take note that the value of an object is freed, while its recipe may still be needed."""

    def keep(self, task: Task) -> bool:
        """Keep a task that has ended as a recipe; return whether it is one, and what it holds is held on."""

    def keep_item(self, task: Task, entry: ObjectEntry) -> None:
        """Keep a generator as the recipe of one of its items."""

    def recover_items(self, stream: ObjectStream) -> None:
        """Make items again that a generator, which has ended, was to give once more and did not."""


class NoRecipes:
    """Recipes of a process that loses no object."""

    def recover(self, entry: ObjectEntry) -> None:
        """Nothing is lost."""

    def drop(self, entry: ObjectEntry) -> None:
        """There is nothing to forget."""

    def value_freed(self, entry: ObjectEntry) -> None:
        """No value is made again."""

    def keep(self, task: Task) -> bool:
        """Keep nothing."""
        return False

    def keep_item(self, task: Task, entry: ObjectEntry) -> None:
        """Keep nothing."""

    def recover_items(self, stream: ObjectStream) -> None:
        """Nothing is lost."""


class TaskEvents(Protocol):
    """The receiver of the events of tasks. Called under the process's lock."""

    def task_ended(self, task: Task) -> None:
        """Let what the task ran on run others."""

    def run_again(self, task: Task) -> None:
        """Run a task again that has failed and may be retried."""
