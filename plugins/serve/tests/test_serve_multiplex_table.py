"""Which models are loaded, unloaded and lent: no event loop, no models."""

from __future__ import annotations

import random

import pytest
from kernel_serve.multiplex.table import GrantModel, Instruction, LoadModel, ModelTable, Unload


def full(*model_ids: str, limit: int) -> ModelTable:
    """Return a table that has loaded `model_ids`, used by users of the same names."""
    table = ModelTable(limit)
    for number, model_id in enumerate(model_ids):
        assert table.ask(number, model_id, model_id) == [LoadModel(model_id)]
        assert table.loaded(model_id) == [GrantModel(number, model_id)]
    return table


def test_it_is_loaded_once_for_all_who_ask() -> None:
    table = ModelTable(2)
    assert table.ask(1, "u", "a") == [LoadModel("a")]
    assert table.ask(2, "v", "a") == []
    assert table.loaded("a") == [GrantModel(1, "a"), GrantModel(2, "a")]
    assert table.ask(3, "w", "a") == [GrantModel(3, "a")]


def test_the_one_asked_for_longest_ago_goes_first() -> None:
    table = full("a", "b", limit=2)
    table.released("a")
    table.released("b")
    table.ask(5, "u", "a")
    table.released("u")
    assert table.ask(6, "v", "c") == [Unload("b")]
    assert table.ids() == ("a",)
    assert table.unloaded("b") == [LoadModel("c")]


def test_one_in_use_does_not_go_while_there_is_an_idle_one() -> None:
    table = full("a", "b", limit=2)
    table.released("b")
    assert table.ask(6, "v", "c") == [Unload("b")]


def test_one_in_use_goes_when_its_users_are_done_and_new_askers_queue_up() -> None:
    table = full("a", limit=1)
    assert table.ask(1, "u", "b") == []
    assert table.ids() == (), "it takes no new requests"
    assert table.ask(2, "v", "a") == []
    assert table.released("a") == [Unload("a")]
    assert table.unloaded("a") == [LoadModel("b")]
    assert table.loaded("b") == [GrantModel(1, "b")]
    assert table.released("u") == [Unload("b")]
    assert table.unloaded("b") == [LoadModel("a")]
    assert table.loaded("a") == [GrantModel(2, "a")]


def test_who_has_a_model_never_waits_for_others_to_be_done() -> None:
    table = full("a", "b", limit=2)
    assert table.ask(7, "a", "c") == [LoadModel("c")], "the limit is exceeded"
    assert table.loaded("c") == [GrantModel(7, "c")]
    assert table.released("a") == [Unload("a")], "and kept again as soon as it can be"
    assert table.ids() == ("b", "c")


def test_who_does_not_wait_any_more_drives_nobody_out() -> None:
    table = full("a", limit=1)
    table.ask(1, "u", "b")
    assert table.ask(2, "v", "a") == []
    assert table.withdraw(1) == [GrantModel(2, "a")]
    assert table.ids() == ("a",)


def test_a_failure_reaches_those_who_asked_and_gives_the_place_back() -> None:
    table = ModelTable(1)
    table.ask(1, "u", "a")
    table.ask(2, "v", "a")
    table.ask(3, "w", "b")
    assert table.failed("a") == ([1, 2], [LoadModel("b")])


def test_without_a_limit_nothing_goes() -> None:
    table = ModelTable(None)
    for number in range(100):
        assert table.ask(number, "u", str(number)) == [LoadModel(str(number))]
        table.loaded(str(number))
    assert table.released("u") == []
    assert len(table.ids()) == 100


class World:
    """Carries out a table's instructions in any order, as an event loop would."""

    def __init__(self, random: random.Random, limit: int) -> None:
        self.random = random
        self.table = ModelTable(limit)
        self.limit = limit
        self.todo: list[Instruction] = []
        self.granted: dict[int, str] = {}
        self.ticket_of_user: dict[int, set[int]] = {}
        self.there: set[str] = set()
        self.over_allowed = False

    def do(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            if isinstance(each, GrantModel):
                assert each.model_id in self.there, "lent, but not loaded"
                self.granted[each.ticket] = each.model_id
            else:
                self.todo.append(each)
                if isinstance(each, Unload):
                    assert each.model_id in self.there
                    self.there.remove(each.model_id)
        self.table.validate()

    def carry_out_one(self) -> None:
        each = self.todo.pop(self.random.randrange(len(self.todo)))
        assert not isinstance(each, GrantModel)
        if isinstance(each, Unload):
            self.do(self.table.unloaded(each.model_id))
        elif self.random.random() < 0.1:
            tickets, instructions = self.table.failed(each.model_id)
            self.granted.update(dict.fromkeys(tickets, "failed"))
            self.do(instructions)
        else:
            self.there.add(each.model_id)
            self.do(self.table.loaded(each.model_id))


@pytest.mark.parametrize("seed", range(200))
def test_everybody_gets_a_model_that_stays_as_long_as_it_is_used(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance, limit=chance.randint(1, 4))
    tickets = iter(range(10_000))
    asks: dict[int, tuple[int, str]] = {}
    users: set[int] = set()
    nested = chance.random() < 0.5
    for _ in range(300):
        event = chance.random()
        if event < 0.35:
            user = chance.choice(sorted(users)) if nested and users and chance.random() < 0.3 else next(tickets)
            waits = [ticket for ticket, (who, _) in asks.items() if who == user and ticket not in world.granted]
            if not waits:
                users.add(user)
                ticket, model_id = next(tickets), chance.choice("abcdefg")
                asks[ticket] = (user, model_id)
                world.do(world.table.ask(ticket, user, model_id))
        elif event < 0.6 and users:
            user = chance.choice(sorted(users))
            waits = [ticket for ticket, (who, _) in asks.items() if who == user and ticket not in world.granted]
            if not waits:
                users.remove(user)
                world.do(world.table.released(user))
            elif chance.random() < 0.2:
                for ticket in waits:
                    del asks[ticket]
                    world.do(world.table.withdraw(ticket))
        elif world.todo:
            world.carry_out_one()
        for ticket, model_id in world.granted.items():
            if asks[ticket][0] in users and model_id != "failed":
                assert model_id in world.there, "taken away from a user"
        if not nested:
            assert len(world.there) <= world.limit
    while users or world.todo:
        while world.todo:
            world.carry_out_one()
        done = [u for u in users if all(t in world.granted for t, (who, _) in asks.items() if who == u)]
        assert done or not users, "everybody waits for somebody"
        for user in done:
            users.remove(user)
            world.do(world.table.released(user))
    assert set(asks) == set(world.granted) and len(world.there) <= world.limit
