"""Cancel tasks and actor calls: those that this process owns by itself, others by asking their owner."""

from __future__ import annotations

from kernel.runtime.object_entry import PENDING, ObjectEntry
from kernel_engine.objects.ownership import Ownership
from kernel_processes.runtime.actor_calls import ActorCaller, Channel
from kernel_processes.runtime.process import Process
from kernel_processes.runtime.submission import TaskSubmitter
from kernel_spec.errors import ArgumentError
from kernel_spec.ids import ObjectId


class Cancelling:
    """Finds the task of an object, and lets the process that sent the task cancel it. Runs under the process's lock."""

    def __init__(self, process: Process, ownership: Ownership, submitter: TaskSubmitter, actors: ActorCaller) -> None:
        self._process = process
        self._ownership = ownership
        self._submitter = submitter
        self._actors = actors
        process.methods["cancel"] = self._cancel_here

    def cancel(self, entry: ObjectEntry, force: bool, recursive: bool) -> None:
        """Cancel the task that makes an object, if it has not ended; nothing happens if its owner has ended.

        Raises ArgumentError for an actor call that is to be cancelled with `force`.
        """
        details = entry.details
        if details is None or details.owner is None:
            self._cancel_own(entry, force, recursive)
            return
        try:
            owner = self._process.peer(details.owner, details.address)
        except OSError:
            return  # The owner has ended, and its task with it.
        self._process.request(owner, "cancel", entry.id, force, recursive)

    def cancel_children(self, parent: bytes) -> None:
        """Cancel every unfinished task that the task `parent` submitted here."""
        for entry in list(self._ownership.objects.values()):
            task = entry.task
            if task is not None and task.parent == parent and entry.state == PENDING:
                self._cancel_own(entry, False, True)

    def _cancel_here(self, id: ObjectId, force: bool, recursive: bool) -> None:
        entry = self._ownership.objects.get(id)
        if entry is not None:
            self._cancel_own(entry, force, recursive)

    def _cancel_own(self, entry: ObjectEntry, force: bool, recursive: bool) -> None:
        task = entry.task
        if task is None or entry.state != PENDING:
            return
        if isinstance(task.place, Channel):
            if force:
                raise ArgumentError(
                    f"cancel(force=True) can't end the actor call {task.name}(): it would end the actor. "
                    "Use cancel(ref), or kernel.kill(actor)"
                )
            self._actors.cancel(task, recursive)
        else:
            self._submitter.cancel(task, force, recursive)
