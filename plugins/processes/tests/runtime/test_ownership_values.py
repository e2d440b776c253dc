"""Values between owners and borrowers: asked for, answered, copied and deleted; and what the death of an owner does."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.runtime.object_entry import FAILED, FREED, INLINE, LOST, PENDING, STORED, ObjectEntry, dropped
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_spec.errors import ObjectLostError, OwnerDiedError
from kernel_spec.ids import ObjectId
from plugins.processes.tests.runtime.owner_bench import (
    ELSEWHERE,
    HERE,
    ID,
    ME,
    OTHER,
    OWNER,
    SECOND,
    THERE,
    Bench,
    error_of,
)


@pytest.fixture
def bench() -> Iterator[Bench]:
    dropped.clear()
    yield Bench()
    dropped.clear()


# -- as a borrower ---------------------------------------------------------------------------------------------------


def test_who_meets_a_reference_registers_with_the_owner_once(bench: Bench) -> None:
    first = bench.table.adopt(ID, OWNER, "/owner", None)
    assert bench.take() == [(OWNER, (op.BORROW, [ID], 0))]
    second = bench.table.adopt(ID, OWNER, "/owner", None)
    assert bench.take() == [] and first._entry is second._entry and first._entry.local == 2
    assert (first._entry.owner, first._entry.more().address) == (OWNER, "/owner")


def test_a_value_is_asked_for_once(bench: Bench) -> None:
    entry = bench.borrow()
    bench.table.fetch(entry)
    bench.table.fetch(entry)
    assert bench.take() == [(OWNER, (op.FETCH, [ID]))]
    own = bench.own(SECOND, PENDING)
    bench.table.fetch(own)
    assert bench.take() == [], "our own comes by itself"


@pytest.mark.parametrize(
    ("result", "state", "value"),
    [
        ((0, b"head"), INLINE, b"head"),
        ((1, b"head", [b"buffer"]), INLINE, (b"head", [b"buffer"])),
        ((2, 500, (THERE, HERE)), STORED, (500, (THERE, HERE))),
    ],
)
def test_the_answer_is_the_value_whatever_its_form(bench: Bench, result: Any, state: int, value: Any) -> None:
    entry = bench.borrow()
    bench.table.fetch(entry)
    bench.deliver(OWNER, op.OBJECT, ID, op.RESULTS, result, ())
    assert (entry.state, entry.value) == (state, value)
    bench.table.fetch(entry)
    bench.deliver(OWNER, op.OBJECT, ID, op.RESULTS, (0, b"another"), ())
    assert (entry.state, entry.value) == (state, value), "the first one counts"


def test_a_failure_is_an_answer(bench: Bench) -> None:
    entry = bench.borrow()
    bench.deliver(OWNER, op.OBJECT, ID, op.FAILED, [op.SYSTEM_ERROR, b"error"], ())
    assert (entry.state, entry.value) == (FAILED, (op.SYSTEM_ERROR, b"error"))


def test_the_end_of_the_last_reference_is_told_with_all_that_was_registered(bench: Bench) -> None:
    entry = bench.borrow()
    entry.more().debt = 3
    entry.local = 1
    bench.drop(entry)
    assert bench.table.objects == {}
    assert bench.tell_stores() == [], "its copies are the owner's"
    assert bench.take() == [(OWNER, (op.UNBORROW, [(ID, 3)]))]


@pytest.mark.parametrize("how", ["its process is lost", "nobody answers there", "it is known to be dead"])
def test_an_owner_that_is_gone_takes_its_values_along(bench: Bench, how: str) -> None:
    entry, second = bench.borrow(), bench.borrow(SECOND)
    second.resolve(INLINE, b"value")
    if how == "its process is lost":
        bench.lose(OTHER)
        assert entry.state == PENDING
        bench.lose(OWNER)
    elif how == "nobody answers there":
        bench.gone.add(OWNER)
        bench.table.fetch(entry)
        assert OWNER in bench.table.dead_owners
    else:
        bench.table.dead_owners.add(OWNER)
        bench.table.fetch(entry)
    assert type(error_of(entry)) is OwnerDiedError and OWNER.hex() in str(error_of(entry))
    assert second.state == INLINE, "what came is there"
    assert bench.take() == []


def test_a_reference_to_our_own_that_comes_back_too_late_says_so(bench: Bench) -> None:
    entry = bench.table.adopt(ID, ME, "/me", None)._entry
    assert type(error_of(entry)) is ObjectLostError and "freed by its owner" in str(error_of(entry))
    assert bench.take() == [] and entry.owner is None


# -- as an owner -----------------------------------------------------------------------------------------------------


def test_who_asks_for_a_value_gets_it_when_it_is_there(bench: Bench) -> None:
    entry = bench.own(state=PENDING)
    bench.own(SECOND, STORED, (500, (THERE,)))
    bench.deliver(OTHER, op.FETCH, [ID, SECOND])
    assert bench.take() == [(OTHER, (op.OBJECT, SECOND, op.RESULTS, (2, 500, (THERE,)), ()))]
    entry.resolve(INLINE, b"value")
    assert bench.take() == [(OTHER, (op.OBJECT, ID, op.RESULTS, (0, b"value"), ()))]


def test_what_failed_is_told_and_noted_as_asked_for(bench: Bench) -> None:
    asked: list[ObjectEntry] = []
    bench.table.failures = SimpleNamespace(asked=asked.append)
    entry = bench.own(state=FAILED, value=(1, b"error"))
    bench.deliver(OTHER, op.FETCH, [ID])
    assert bench.take() == [(OTHER, (op.OBJECT, ID, op.FAILED, (1, b"error"), ()))] and asked == [entry]


def test_what_was_freed_is_told_to_be_lost(bench: Bench) -> None:
    bench.deliver(OTHER, op.FETCH, [ID])
    ((receiver, (operation, id, kind, (_, error), carried)),) = bench.take()
    assert (receiver, operation, id, kind, carried) == (OTHER, op.OBJECT, ID, op.FAILED, ())
    assert "its owner has freed it" in str(pickle.loads(error))


@pytest.mark.parametrize("state", [LOST, FREED])
def test_what_is_lost_is_made_again_before_it_is_sent(bench: Bench, state: int) -> None:
    def recover(entry: ObjectEntry) -> None:
        entry.state = PENDING

    bench.table.recipes.recover = recover
    entry = bench.own(state=state, value=(500, (THERE,), "its file is gone"))
    bench.deliver(OTHER, op.FETCH, [ID])
    assert bench.take() == []
    entry.resolve(STORED, (500, (HERE,)))
    assert bench.take() == [(OTHER, (op.OBJECT, ID, op.RESULTS, (2, 500, (HERE,)), ()))]


def test_who_left_while_it_waited_is_sent_nothing(bench: Bench) -> None:
    entry = bench.own(state=PENDING)
    connection = SimpleNamespace(info=SimpleNamespace(id=OTHER), closed=False)
    bench.process.handlers[op.FETCH](connection, (op.FETCH, [ID]))
    connection.closed = True
    entry.resolve(INLINE, b"value")
    assert bench.take() == []


def test_references_inside_a_value_are_registered_for_who_gets_it(bench: Bench) -> None:
    inner, outer = bench.own(SECOND), bench.own()
    outer.more().contained = [inner]
    inner.holds += 1
    bench.deliver(OTHER, op.FETCH, [ID])
    assert bench.take() == [(OTHER, (op.OBJECT, ID, op.RESULTS, (0, b"value"), [(SECOND, ME, "/me")]))]
    assert inner.more().borrowers == {OTHER: 1}


def test_copies_are_known_once_and_all_are_deleted_in_the_end(bench: Bench) -> None:
    entry = bench.own(state=STORED, value=(500, (THERE,)))
    bench.deliver(OTHER, op.COPIED, ID, HERE)
    bench.deliver(OTHER, op.COPIED, ID, HERE)
    assert entry.value == (500, (THERE, HERE))
    bench.drop(entry)
    assert sorted(bench.tell_stores()) == [("", [ID]), (THERE, [ID])]
    bench.deliver(OTHER, op.COPIED, ID, ELSEWHERE)
    assert bench.tell_stores() == [(ELSEWHERE, [ID])], "who copied it late has it for nobody"


def test_what_lives_in_messages_is_deleted_from_no_store(bench: Bench) -> None:
    bench.drop(bench.own())
    bench.drop(bench.own(SECOND, LOST, (500, (THERE,), "")))
    assert bench.tell_stores() == [] and bench.table.objects == {}
    bench.drop(bench.own(SECOND, LOST, (500, (THERE,), "its file is damaged")))
    assert bench.tell_stores() == [(THERE, [SECOND])], "the store lives and has something of it"


def test_an_object_lives_as_long_as_anybody_needs_it(bench: Bench) -> None:
    entry = bench.own()
    bench.deliver(OTHER, op.BORROW, [ID, SECOND], 5)
    assert bench.take() == [(OTHER, (op.BORROWED, 5))]
    bench.deliver(OTHER, op.BORROW, [ID], 0)
    bench.table.hold([entry])
    bench.drop(entry)
    bench.table.release([entry])
    bench.deliver(OTHER, op.UNBORROW, [(ID, 1), (SECOND, 1)])
    bench.deliver(OWNER, op.UNBORROW, [(ID, 9)])
    assert ID in bench.table.objects and bench.take() == []
    bench.deliver(OTHER, op.UNBORROW, [(ID, 1)])
    assert bench.table.objects == {}


def test_what_a_task_will_write_or_somebody_else_keeps_stays(bench: Bench) -> None:
    entry = bench.own(state=PENDING)
    entry.task = SimpleNamespace(site=None)
    bench.drop(entry)
    assert ID in bench.table.objects
    entry.resolve(INLINE, b"value")
    may_go = [False]
    entry.more().may_go = lambda: may_go[0]
    bench.table.reconsider(entry)
    assert ID in bench.table.objects
    may_go[0] = True
    bench.table.reconsider(entry)
    assert bench.table.objects == {}


def test_the_recipe_goes_with_the_object_and_what_was_inside_it(bench: Bench) -> None:
    recipes: list[ObjectEntry] = []
    bench.table.recipes.drop = recipes.append
    inner, outer = bench.own(SECOND), bench.own()
    outer.more().contained, outer.more().recipe = [inner], "how it is made"
    inner.holds, inner.local = 1, 0
    bench.drop(outer)
    assert bench.table.objects == {} and recipes == [outer]


def test_an_ingredient_of_something_that_may_be_made_again_loses_only_its_value(bench: Bench) -> None:
    freed: list[ObjectEntry] = []
    bench.table.recipes.value_freed = freed.append
    inner, entry = bench.own(SECOND), bench.own(state=STORED, value=(500, (THERE,)))
    inner.holds, inner.local = 1, 0
    entry.more().recipe_users, entry.more().contained = 1, [inner]
    bench.drop(entry)
    assert (entry.state, entry.value, freed) == (FREED, None, [entry]) and bench.table.objects == {ID: entry}
    assert bench.tell_stores() == [(THERE, [ID])]
    bench.table.reconsider(entry)
    assert bench.tell_stores() == [] and freed == [entry], "it is freed already"
    entry.more().recipe_users = 0
    bench.table.reconsider(entry)
    assert bench.table.objects == {}


def test_a_long_chain_of_values_in_values_is_freed(bench: Bench) -> None:
    before = bench.own(ObjectId(b"innermost"))
    for number in range(5000):
        entry = bench.own(ObjectId(b"number %d" % number))
        entry.more().contained = [before]
        before.holds, before.local = 1, 0
        before = entry
    bench.drop(before)
    assert bench.table.objects == {}


def test_a_result_that_nobody_waits_for_is_cleared_away(bench: Bench) -> None:
    bench.table.discard(ID, (0, b"value"), (), OTHER)
    assert bench.tell_stores() == []
    bench.table.discard(ID, (2, 500, (THERE,)), (), OTHER)
    assert bench.tell_stores() == [(THERE, [ID])]
    entry = bench.own(state=STORED, value=(500, (THERE,)))
    bench.table.discard(ID, (2, 500, (ELSEWHERE, THERE)), (), OTHER)
    assert bench.tell_stores() == [] and entry.value == (500, (THERE, ELSEWHERE))


def test_references_of_a_value_that_is_not_wanted_are_given_back(bench: Bench) -> None:
    bench.deliver(OWNER, op.OBJECT, ID, op.RESULTS, (0, b"value"), [(SECOND, OWNER, "/owner")])
    bench.table.drain()
    assert bench.take() == [(OWNER, (op.UNBORROW, [(SECOND, 1)]))] and bench.table.objects == {}


def test_a_dead_process_borrows_nothing_any_more(bench: Bench) -> None:
    entry = bench.own()
    for borrower in (OTHER, OWNER):
        bench.deliver(borrower, op.BORROW, [ID], 0)
    bench.drop(entry)
    bench.lose(OTHER)
    assert entry.more().borrowers == {OWNER: 1}
    bench.lose(OWNER)
    assert bench.table.objects == {}


def test_who_was_only_out_of_reach_is_met_again(bench: Bench) -> None:
    bench.lose(OWNER)
    assert OWNER in bench.table.dead_owners
    bench.process.on_peer_met(OWNER)
    assert OWNER not in bench.table.dead_owners


def test_owners_are_told_of_copies_that_can_t_be_had_and_stores_what_to_keep(bench: Bench) -> None:
    bench.table.report_lost(ID, [THERE, HERE], "its file is damaged", OWNER, "/owner")
    assert bench.take() == [(OWNER, packed(op.LostAt(object=ID, places=(THERE, HERE), why="its file is damaged")))]
    bench.table.keep_at(ID, THERE)
    assert bench.kept == [(THERE, ID)]


def test_views_that_nobody_uses_are_forgotten(bench: Bench) -> None:
    entry = bench.own()
    bench.own(SECOND)
    entry.more().view = memoryview(b"mapped")
    bench.table.drop_idle_views()
    assert entry.more().view is None and bench.table.objects[SECOND].details is None
