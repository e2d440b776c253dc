"""Hold a task or actor call, as the process that submitted it knows it."""

from __future__ import annotations

from typing import Any

from kernel.runtime.definitions import CallOptions, FunctionDefinition
from kernel.runtime.execution_context import current_execution
from kernel.runtime.object_entry import ObjectEntry
from kernel.runtime.streams import ObjectStream
from kernel_spec.errors import TaskCancelledError
from kernel_spec.ids import TaskId


class Task:
    """Holds one submitted task or actor call."""

    __slots__ = (
        "actor",
        "arguments",
        "attempt",
        "cancelled",
        "definition",
        "entries",
        "estimate",
        "extra",
        "holds",
        "id",
        "ingredients",
        "kept",
        "parent",
        "place",
        "retries",
        "site",
        "slots",
        "stream",
        "waiting",
        "weight",
    )

    def __init__(self, id: TaskId, definition: FunctionDefinition | CallOptions, retries: int) -> None:
        self.id = id
        self.definition = definition
        self.retries = retries
        self.arguments: Any = None
        self.slots: list[tuple[int | str, ObjectEntry]] | None = None
        self.holds: list[ObjectEntry] | None = None
        self.kept = 0
        self.ingredients: list[tuple[ObjectEntry, bool]] | None = None
        """What it needs to run again (see `lineage`): a list once it has ended, if it may."""
        self.entries: ObjectEntry | list[ObjectEntry] = ()  # type: ignore[assignment]
        self.waiting = 0
        self.weight = 0
        self.place: Any = None
        self.actor = ""
        self.estimate = 0.0
        self.cancelled = False
        self.attempt = 0
        self.stream: ObjectStream | None = None
        self.extra: dict[str, Any] | None = None
        self.site: tuple[Any, int] | None = None
        self.parent = current_execution.get().task

    @property
    def name(self) -> str:
        """The name that is shown: of the function, or of the actor's class and the method."""
        return f"{self.actor}.{self.definition.name}" if self.actor else self.definition.name

    def all_entries(self) -> list[ObjectEntry]:
        """Return the entries of its results."""
        return self.entries if type(self.entries) is list else [self.entries]  # type: ignore[list-item]


def cancelled_error(task: Task) -> TaskCancelledError:
    """Return the error of a task that was cancelled."""
    return TaskCancelledError(f"task {task.name}() ({task.id.hex()}) was cancelled")
