"""Making lost objects again: which tasks run, how often, in which order, and what is told where none may."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from kernel.runtime.definitions import CallOptions, FunctionDefinition
from kernel.runtime.object_entry import FAILED, FREED, INLINE, LOST, PENDING, STORED, ObjectEntry, dropped
from kernel.runtime.streams import ObjectStream
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of
from kernel_engine.tasks.task import Task
from kernel_processes.runtime import lineage as module
from kernel_processes.runtime.lineage import CALL_BYTES, Lineage
from kernel_spec.errors import ObjectLostError
from kernel_spec.ids import TaskId, object_id
from plugins.processes.tests.runtime.owner_bench import ELSEWHERE, HERE, OTHER, THERE, Bench, error_of


class World(Bench):
    """A process with recipes: tasks are run when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.again: list[Task] = []
        self.lineage = Lineage(self.process, self.table, self.again.append)
        self._number = 0

    def task(self, *arguments: ObjectEntry, results: int = 1, retries: int = 3, actor: bool = False) -> Task:
        """Submit a task that is given these objects."""
        self._number += 1
        id = TaskId(b"me------" + self._number.to_bytes(8, "little"))
        definition = CallOptions(name="f") if actor else FunctionDefinition(None, f"f{self._number}", None)  # type: ignore[arg-type]
        task = Task(id, definition, retries)
        entries = [ObjectEntry(object_id(id, index), 1, task) for index in range(results)]
        for entry in entries:
            self.table.objects[entry.id] = entry
        task.entries = entries if results != 1 else entries[0]
        task.holds = list(arguments)
        self.table.hold(arguments)
        return task

    def end(self, task: Task, *places: str, keep: bool = True) -> list[ObjectEntry]:
        """Have a task end with stored results; return them."""
        for entry in task.all_entries():
            if entry.state == PENDING:
                entry.resolve(STORED, (500, places or (THERE,)))
        if keep and not self.lineage.keep(task):
            held, task.holds = task.holds or [], None
            self.table.release(held)
        return task.all_entries()

    def lose_place(self, place: str) -> None:
        for function in self.process.on_place_lost:
            function(place)


@pytest.fixture
def world() -> Iterator[World]:
    dropped.clear()
    yield World()
    dropped.clear()


# -- losing ----------------------------------------------------------------------------------------------------------


def test_a_copy_elsewhere_becomes_the_one_that_counts(world: World) -> None:
    (entry,) = world.end(world.task(), THERE, HERE, ELSEWHERE)
    world.lose_place(THERE)
    assert (entry.state, entry.value) == (STORED, (500, (HERE, ELSEWHERE))) and world.kept == [(HERE, entry.id)]
    world.lose_place(THERE)
    assert world.kept == [(HERE, entry.id)], "it had nothing more"
    assert world.tell_stores() == [] and world.again == []


def test_without_another_copy_it_is_lost_and_made_again_when_it_is_asked_for(world: World) -> None:
    task = world.task()
    (entry,) = world.end(task)
    world.lose_place(THERE)
    assert (entry.state, entry.value) == (LOST, (500, (THERE,), "")) and world.again == []
    world.deliver(OTHER, op.FETCH, [entry.id])
    assert world.again == [task] and (entry.state, entry.task, task.attempt, task.retries) == (PENDING, task, 1, 2)
    world.deliver(OTHER, op.FETCH, [entry.id])
    assert world.again == [task], "it runs already"
    world.end(task, HERE)
    assert [message[1][2:4] for message in world.take()] == [(op.RESULTS, (2, 500, (HERE,)))] * 2
    assert world.tell_stores() == [], "what is gone needs no deleting"


def test_what_lies_in_messages_or_belongs_to_others_is_lost_with_no_node(world: World) -> None:
    inline, borrowed = world.own(), world.borrow(object_id(TaskId(b"another!" + bytes(8)), 0))
    borrowed.resolve(STORED, (500, (THERE,)))
    world.lose_place(THERE)
    assert (inline.state, borrowed.state) == (INLINE, STORED)


def test_what_a_reader_found_out_counts_and_what_lies_there_is_deleted(world: World) -> None:
    (entry,) = world.end(world.task(), THERE, HERE)
    world.deliver(OTHER, number_of(op.LostAt), entry.id, (THERE, ELSEWHERE), "its file is damaged")
    assert entry.value == (500, (HERE,)) and world.tell_stores() == [(THERE, [entry.id])]
    world.deliver(OTHER, number_of(op.LostAt), entry.id, (HERE,), "its file is damaged")
    assert (entry.state, entry.value) == (LOST, (500, (HERE,), "its file is damaged"))
    world.deliver(OTHER, number_of(op.LostAt), entry.id, (HERE,), "once more")
    assert entry.value[2] == "its file is damaged" and world.tell_stores() == []
    world.lineage.recover(entry)
    assert world.tell_stores() == [], "it may be made at the same place"
    entry.resolve(STORED, (500, (ELSEWHERE,)))
    assert world.tell_stores() == [("", [entry.id])]


# -- what is made again ----------------------------------------------------------------------------------------------


def test_what_a_task_needs_is_made_again_before_it(world: World) -> None:
    first = world.task()
    (a,) = world.end(first)
    second = world.task(a)
    (b,) = world.end(second)
    assert a.holds == 0 and a.more().recipe_users == 1, "its recipe is enough"
    world.drop(a)
    assert (a.state, world.tell_stores()) == (FREED, [(THERE, [a.id])])
    world.lose_place(THERE)
    world.lineage.recover(b)
    assert world.again == [second, first] and (a.state, b.state) == (PENDING, PENDING)
    assert a.holds == 1 and a.more().recipe_users == 0
    world.end(first, HERE)
    world.end(second, HERE)
    assert (a.state, b.state) == (FREED, STORED)
    world.drop(b)
    assert world.table.objects == {} and sorted(world.tell_stores()) == [("", [a.id, b.id])]


def test_what_was_put_is_held_as_long_as_something_may_have_to_be_made_of_it(world: World) -> None:
    put = world.own()
    task = world.task(put)
    (result,) = world.end(task)
    world.drop(put)
    assert put.id in world.table.objects and put.holds == 1
    world.lose_place(THERE)
    world.lineage.recover(result)
    world.end(task, HERE)
    assert put.holds == 1
    world.drop(result)
    assert world.table.objects == {}


def test_results_of_one_task_that_were_at_the_same_place_are_made_again_together(world: World) -> None:
    task = world.task(results=5)
    a, b, c, d, beside = world.end(task)
    b.value = (500, (THERE, HERE))
    c.value = (500, (HERE,))
    d.resolve(INLINE, b"small")
    world.deliver(OTHER, number_of(op.LostAt), a.id, (THERE,), "its file is damaged")
    world.lineage.recover(a)
    assert world.again == [task] and [entry.state for entry in (a, b, c, d)] == [PENDING, STORED, STORED, INLINE]
    assert beside.state == PENDING, "it was only there, too"
    world.end(task, ELSEWHERE)
    assert (a.value, c.value) == ((500, (ELSEWHERE,)), (500, (HERE,)))
    world.lose_place(HERE)
    assert (b.state, c.state) == (STORED, LOST)
    world.deliver(OTHER, number_of(op.LostAt), b.id, (THERE,), "gone")
    world.lineage.recover(c)
    assert world.again == [task, task] and [entry.state for entry in (a, b, c)] == [STORED, PENDING, PENDING]


@pytest.mark.parametrize("retries", [0, 1, -1])
def test_a_task_is_run_again_as_often_as_it_may(world: World, retries: int) -> None:
    task = world.task(retries=retries)
    (entry,) = world.end(task)
    for _ in range(3):
        world.lose_place(THERE)
        world.lineage.recover(entry)
        if entry.state == PENDING:
            world.end(task)
    assert len(world.again) == {0: 0, 1: 1, -1: 3}[retries]
    assert entry.state == (STORED if retries < 0 else FAILED)


def test_a_task_that_may_not_run_again_is_named(world: World) -> None:
    task = world.task()
    (entry,) = world.end(task)
    task.retries = 0
    world.deliver(OTHER, number_of(op.LostAt), entry.id, (THERE,), "its file is damaged")
    world.lineage.recover(entry)
    assert type(error_of(entry)) is ObjectLostError and world.tell_stores() == [(THERE, [entry.id])]
    assert str(error_of(entry)) == (
        f"object {entry.id.hex()} is lost: its file is damaged, and its task f1() may not run again: its max_retries "
        "are used up (give it more to have it made again)"
    )


@pytest.mark.parametrize("actor", [True, False])
def test_what_was_put_or_came_from_an_actor_can_t_be_made_again(world: World, actor: bool) -> None:
    entry = world.end(world.task(actor=True))[0] if actor else world.own(state=STORED, value=(500, (THERE,)))
    world.lose_place(THERE)
    world.lineage.recover(entry)
    assert "is lost: it is on a node that is gone, and it was put, or came from an actor" in str(error_of(entry))
    assert world.again == [] and world.tell_stores() == []


def test_of_recipes_of_freed_values_only_the_last_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2 * CALL_BYTES + 700)
    before = world.end(world.task())[0]
    chain = [before]
    for number in range(3):
        task = world.task(before)
        task.arguments = (0, b"x" * 200, [b"y" * 20, b"z" * 10]) if number == 1 else None
        (result,) = world.end(task)
        world.drop(before)
        chain.append(before := result)
    assert [entry.state for entry in chain] == [FREED, FREED, FREED, STORED]
    assert [entry.more().recipe is not None for entry in chain] == [False, True, True, True], (
        "more than two is too much"
    )
    world.lose_place(THERE)
    world.lineage.recover(chain[-1])
    assert [entry.state for entry in chain] == [FAILED, PENDING, PENDING, PENDING]
    assert "how it was made is forgotten" in str(error_of(chain[0])) and len(world.again) == 3


def test_a_call_counts_with_what_it_was_given(world: World) -> None:
    task = world.task()
    assert module._size(task) == CALL_BYTES
    task.arguments = (0, b"x" * 200, [b"y" * 20, b"z" * 10])
    assert module._size(task) == CALL_BYTES + 230
    task.arguments = (0, b"x" * 200, None)
    assert module._size(task) == CALL_BYTES + 200


def test_a_recipe_goes_with_the_last_of_its_results(world: World) -> None:
    put = world.own()
    a, b = world.end(world.task(put, results=2))
    world.drop(put)
    world.drop(a)
    assert put.id in world.table.objects
    world.drop(b)
    assert world.table.objects == {} and world.lineage._freed == {}


def test_a_task_that_ran_again_for_some_results_goes_with_the_last_of_all(world: World) -> None:
    put = world.own()
    task = world.task(put, results=2)
    a, b = world.end(task)
    b.value = (500, (HERE,))
    world.drop(put)
    world.lose_place(THERE)
    world.lineage.recover(a)
    world.end(task, ELSEWHERE)
    assert task.kept == 2
    world.drop(a)
    assert put.id in world.table.objects
    world.drop(b)
    assert world.table.objects == {}


def test_a_task_whose_results_are_small_is_not_kept(world: World) -> None:
    put = world.own()
    task = world.task(put)
    task.all_entries()[0].resolve(INLINE, b"small")
    world.end(task)
    assert put.holds == 0 and task.kept == 0 and task.ingredients is None
    unknown = world.task()
    world.table.objects.clear()
    assert not world.lineage.keep(unknown), "nobody can ask for it"


def test_a_lost_argument_is_awaited_by_the_one_task_that_runs_already(world: World) -> None:
    task = world.task(results=2)
    a, b = world.end(task)
    world.lose_place(THERE)
    world.lineage.recover(a)
    assert (a.state, b.state) == (PENDING, PENDING) and world.again == [task]
    world.lineage.recover(b)
    assert world.again == [task] and task.retries == 2


# -- generators ------------------------------------------------------------------------------------------------------


def streaming(world: World, items: int) -> tuple[Task, list[ObjectEntry]]:
    """Return a generator that has ended, and its items."""
    task = world.task()
    task.stream = ObjectStream(task.id, None, 0)
    entries = []
    for index in range(1, items + 1):
        entry = world.table.objects[object_id(task.id, index)] = ObjectEntry(object_id(task.id, index), 1)
        entry.resolve(STORED, (500, (THERE,)))
        world.lineage.keep_item(task, entry)
        entries.append(entry)
    task.stream.received = items
    world.lineage.keep(task)
    return task, entries


def test_a_generator_runs_again_for_its_items(world: World) -> None:
    task, (first, second) = streaming(world, 2)
    world.lose_place(THERE)
    world.lineage.recover(first)
    assert world.again == [task] and (first.state, second.state) == (PENDING, PENDING)
    assert task.stream is not None and task.stream.awaited == {first.id: 0, second.id: 0} and task.attempt == 1


def test_an_item_that_does_not_come_again_has_failed(world: World) -> None:
    task, (first, second) = streaming(world, 2)
    world.lose_place(THERE)
    world.lineage.recover(first)
    assert task.stream is not None
    task.stream.awaited[first.id] = task.attempt - 1
    task.stream.awaited[second.id] = task.attempt
    world.lineage.keep(task)
    assert "f1(), which had made it, yielded less when it ran again" in str(error_of(first))
    assert (second.state, second.value) == (LOST, (0, (), "")), "it was asked for when the generator had passed it"
    world.lineage.recover_items(task.stream)
    assert world.again == [task, task] and second.state == PENDING and list(task.stream.awaited) == [second.id]


def test_an_item_that_came_is_awaited_no_more(world: World) -> None:
    task, (first,) = streaming(world, 1)
    assert task.stream is not None
    task.stream.awaited = {first.id: -1, object_id(task.id, 7): -1}
    world.lineage.keep(task)
    assert first.state == STORED
    world.lineage.recover_items(SimpleNamespace(awaited={first.id: 0}))  # type: ignore[arg-type]
    assert world.again == []
