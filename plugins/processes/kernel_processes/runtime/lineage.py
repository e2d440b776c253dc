"""Make lost objects again: keep the task that made a stored result, its arguments, and how often it may still run.

While a stored result may still be asked for, its task is kept: the call itself, small arguments and those that were
passed by value. For an argument that is the stored result of another task only the *recipe* is kept, which is that task
in turn: its value may be freed meanwhile. So an object can be made again as long as its whole recipe leads back to
tasks and values that are there; values that were put, or that an actor returned, have no recipe. Of the recipes of
freed values, those last made are kept: a program may make one value of another for ever.

When a task runs again for one lost result, it makes all of its lost results again, and those whose only copies are
where that result's were: what one process has just found out about a node holds for the others, too, and each run costs
a retry. Results that are elsewhere stay as they are. The same holds for the items of a generator.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel.runtime.definitions import FunctionDefinition
from kernel.runtime.object_entry import FAILED, FREED, LOST, PENDING, STORED, ObjectEntry
from kernel.runtime.streams import ObjectStream
from kernel_engine.failures.failures import failure_of
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, number_of, unpacked
from kernel_engine.objects.ownership import Ownership
from kernel_engine.tasks.task import Task
from kernel_processes.runtime.process import Process
from kernel_processes.transport.connection import Connection
from kernel_spec.errors import ObjectLostError
from kernel_spec.ids import ObjectId, object_id

MOST_BYTES = 256 << 20
"""Maximum size of the recipes of freed values, where a call without its arguments counts as CALL_BYTES."""
CALL_BYTES = 1000


class Lineage:
    """Keeps the recipes of a process's stored objects. `retry(task)` runs a task again. Under the process's lock."""

    def __init__(self, process: Process, ownership: Ownership, retry: Callable[[Task], None]) -> None:
        self._ownership = ownership
        self._retry = retry
        self._freed: dict[ObjectId, tuple[ObjectEntry, int]] = {}
        """Freed objects with a recipe, and its size in bytes, in the order in which they were freed."""
        self._freed_bytes = 0
        ownership.recipes = self
        process.on_place_lost.append(self._on_place_lost)
        process.handlers[number_of(op.LostAt)] = self._on_lost_at

    def keep_item(self, task: Task, entry: ObjectEntry) -> None:
        """Keep the task that has made a result, if it is stored, as the recipe of it."""
        if entry.state in (STORED, FREED) and self._may_keep(task) and self._is_known(entry):
            entry.more().recipe = task
            task.kept += 1

    def keep(self, task: Task) -> bool:
        """Keep a task that has ended as the recipe of its stored results; return whether it is one.

        What it held is then held as long as the recipe is needed.
        """
        if task.stream is not None:
            self._miss_items(task, task.stream)
        else:
            if task.kept:  # It ran again, for some results.
                self._forget_results(task)
            for entry in task.all_entries():
                self.keep_item(task, entry)
        if not task.kept:
            return False
        held, task.holds = task.holds or [], None
        task.ingredients = [(entry, self._has_recipe(entry)) for entry in held]
        for entry, by_recipe in task.ingredients:
            if by_recipe:
                entry.more().recipe_users += 1
                self._ownership.release((entry,))
        return True

    def recover(self, entry: ObjectEntry) -> None:
        """Make a lost object again, and before that the arguments of its task; it fails if that is impossible."""
        lost, again = [entry], []
        while lost:
            one = lost.pop()
            if one.state not in (LOST, FREED):
                continue
            task: Task | None = one.details.recipe if one.details is not None else None
            if task is not None and task.ingredients is None:  # It has not ended, or runs again.
                self._await(one, task)
            elif task is None or task.retries == 0:
                self._give_up(one, task)
            else:
                self._await_results(one, task)
                self._renew(task)
                again.append(task)
                lost += task.holds or ()
        for task in again:
            self._retry(task)

    def _miss_items(self, task: Task, stream: ObjectStream) -> None:
        """A generator has ended without items that were to come once more: it had passed them, or is fickle."""
        for id, attempt in stream.awaited.items():
            entry = self._ownership.objects.get(id)
            if entry is None or entry.state != PENDING:
                continue
            if attempt < task.attempt:
                self._fail(entry, f"{task.name}(), which had made it, yielded less when it ran again")
            else:
                entry.state, entry.value, entry.more().recipe = LOST, (0, (), ""), task
                task.kept += 1

    def recover_items(self, stream: ObjectStream) -> None:
        """A generator has ended: run it again for the items that were lost after it had passed them."""
        awaited, stream.awaited = stream.awaited, {}
        for entry in filter(None, map(self._ownership.objects.get, awaited)):
            self.recover(entry)

    def _give_up(self, entry: ObjectEntry, task: Task | None) -> None:
        """A lost object can't be made again by `task`, or by any: it has failed."""
        why = ""
        if entry.state == LOST:
            _, places, why = entry.value
            if why:
                self._ownership.delete_at(entry.id, places)
        self._fail(entry, _why_not(entry, task, why))

    def _fail(self, entry: ObjectEntry, reason: str) -> None:
        entry.resolve(FAILED, failure_of(ObjectLostError(f"object {entry.id.hex()} is lost: {reason}")))
        self._ownership.free_unneeded(entry)

    def _await_results(self, entry: ObjectEntry, task: Task) -> None:
        """Note that `task` is to make a lost object again, and what else of its results is lost."""
        _, places, why = entry.value if entry.state == LOST else (0, (), "")
        for other in self._results(task):
            if other.state == STORED and set(places).issuperset(other.value[1]):
                self.lost_at(other, other.value[1], why)
            if other is entry or other.state == LOST:
                self._await(other, task)

    def _await(self, entry: ObjectEntry, task: Task) -> None:
        _, places, why = entry.value if entry.state == LOST else (0, (), "")
        self._forget_freed(entry)
        entry.state, entry.value, entry.task = PENDING, None, task
        if why:  # The copies of these nodes are of no use; a node that is gone has none.
            for place in places or ("",):
                self._ownership.clear_away((entry,), place)
        entry.more().recipe = None
        task.kept -= 1
        if task.stream is not None:
            task.stream.awaited[entry.id] = task.attempt

    def _results(self, task: Task) -> list[ObjectEntry]:
        """Return those results of a task that anything still knows."""
        if task.stream is None:
            return [entry for entry in task.all_entries() if self._is_known(entry)]
        ids = (object_id(task.id, index) for index in range(1, task.stream.received + 1))
        return [entry for entry in map(self._ownership.objects.get, ids) if entry is not None]

    def _forget_results(self, task: Task) -> None:
        task.kept = 0
        for entry in task.all_entries():
            if entry.details is not None:
                entry.details.recipe = None

    def _renew(self, task: Task) -> None:
        """Make a task that has ended one that has not begun."""
        ingredients, task.ingredients = task.ingredients or [], None
        task.holds = [entry for entry, _ in ingredients]
        for entry, by_recipe in ingredients:
            if by_recipe:
                entry.holds += 1
                entry.more().recipe_users -= 1
        task.place = None
        task.attempt += 1
        if task.retries > 0:
            task.retries -= 1

    def value_freed(self, entry: ObjectEntry) -> None:
        """The value of an object is freed, but not its recipe. When that is too much, the oldest are forgotten."""
        task: Task | None = entry.more().recipe
        if task is None:
            return
        size = _size(task)
        self._freed[entry.id] = entry, size
        self._freed_bytes += size
        while self._freed_bytes > MOST_BYTES:
            oldest, _ = next(iter(self._freed.values()))
            self.drop(oldest)

    def _forget_freed(self, entry: ObjectEntry) -> None:
        _, size = self._freed.pop(entry.id, (entry, 0))
        self._freed_bytes -= size

    def drop(self, entry: ObjectEntry) -> None:
        """The recipe of an object is needed no more on its account: the object is gone for good, or nearly so."""
        assert entry.details is not None
        self._forget_freed(entry)
        task, entry.details.recipe = entry.details.recipe, None
        if task is None:
            return
        task.kept -= 1
        if task.kept > 0:
            return
        ingredients, task.ingredients = task.ingredients or [], None
        for other, by_recipe in ingredients:
            if by_recipe:
                other.more().recipe_users -= 1
                self._ownership.reconsider(other)
            else:
                self._ownership.release((other,))

    def _may_keep(self, task: Task) -> bool:
        return type(task.definition) is FunctionDefinition and task.retries != 0

    def _is_known(self, entry: ObjectEntry) -> bool:
        return self._ownership.objects.get(entry.id) is entry

    def _has_recipe(self, entry: ObjectEntry) -> bool:
        return entry.details is not None and (entry.details.recipe is not None or entry.state == FREED)

    # -- losing ----------------------------------------------------------------------------------------------------

    def _on_place_lost(self, place: str) -> None:
        """A node is gone, and its copies are lost."""
        for entry in list(self._ownership.objects.values()):
            if entry.state == STORED and place in entry.value[1] and entry.owner is None:
                self._lose(entry, (place,), "")

    def _on_lost_at(self, connection: Connection, message: Message) -> None:
        """A borrower could not get an object from the places where it should be."""
        said = unpacked(op.LostAt, message)
        entry = self._ownership.objects.get(said.object)
        if entry is not None and entry.state == STORED:
            self.lost_at(entry, said.places, said.why)

    def lost_at(self, entry: ObjectEntry, places: tuple[str, ...], why: str) -> None:
        """An own object can't be had from these places any more, a reader says why: count on them no longer.

        What they have of it, if they live after all, is deleted. That waits until it was made again when no other place
        has it, for that may be done at one of these.
        """
        known = entry.value[1]
        self._lose(entry, places, why)
        if entry.state == STORED:
            for place in known:
                if place in places:
                    self._ownership.delete_at(entry.id, (place,))

    def _lose(self, entry: ObjectEntry, places: tuple[str, ...], why: str) -> None:
        size, known = entry.value
        left = tuple(place for place in known if place not in places)
        if left:
            entry.value = (size, left)
            self._ownership.keep_at(entry.id, left[0])
        else:
            entry.state, entry.value = LOST, (size, known, why)


def _size(task: Task) -> int:
    """Return the approximate number of bytes of a call that is kept."""
    if type(task.arguments) is not tuple:
        return CALL_BYTES
    _, data, buffers = task.arguments
    return CALL_BYTES + len(data) + (sum(map(len, buffers)) if type(buffers) is list else 0)


def _why_not(entry: ObjectEntry, task: Task | None, why: str) -> str:
    """Return why a lost object can't be made again: it has no recipe, or one that may not run any more.

    `why` is the error that a reader got, if there was one.
    """
    if task is None and entry.state == FREED:
        return (
            "it is freed, and how it was made is forgotten, because so much was made of it since; keep what must "
            "survive in files, or hold a reference to what is in between"
        )
    if task is None:
        how = why or "it is on a node that is gone"
        return (
            f"{how}, and it was put, or came from an actor or a task that may not run again (its max_retries are "
            "0 or used up), so nothing could make it again; keep what must survive a node in files, or have a task "
            "make it that may run again"
        )
    return (
        f"{why or 'the node that had it is gone'}, and its task {task.name}() may not run again: its max_retries are "
        "used up (give it more to have it made again)"
    )
