"""Who is relayed to whom: routes, tickets, and those who come and go meanwhile."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_network_tcp.relay.table import (
    MAXIMUM_WAITING,
    TICKET_SECONDS,
    CallBack,
    Connect,
    Here,
    Join,
    Refuse,
    RelayTable,
)

OWN = "10.0.0.1:6380"
NODE = "10.0.0.2:7000"
CLIENT, OTHER = "00" * 8, "11" * 8


@pytest.fixture
def table() -> RelayTable:
    numbers = itertools.count(1)
    table = RelayTable(OWN, lambda: b"ticket %d" % next(numbers))
    table.member(OWN, True)
    table.member(NODE, True)
    return table


def test_a_node_that_has_joined_is_connected_to(table: RelayTable) -> None:
    assert table.asked(1, NODE, 0.0) == [Connect(1, NODE)]


def test_the_relays_own_gateway_serves_by_itself(table: RelayTable) -> None:
    assert table.asked(1, OWN, 0.0) == [Here(1)]


@pytest.mark.parametrize("route", ["10.0.0.3:7000", "example.com:80", "localhost:22", "", "agent", "zz" * 8, "0" * 15])
def test_it_is_no_way_to_anywhere_else(table: RelayTable, route: str) -> None:
    (refused,) = table.asked(1, route, 0.0)
    assert refused == Refuse(1, f"a peer asked for the gateway {route!r}, which is that of no node")


def test_a_node_that_has_left_is_none_any_more(table: RelayTable) -> None:
    table.member(NODE, False)
    (refused,) = table.asked(1, NODE, 0.0)
    assert isinstance(refused, Refuse)


def test_a_client_dials_back_with_its_ticket(table: RelayTable) -> None:
    assert table.client_came(CLIENT) == []
    assert table.asked(1, CLIENT, 0.0) == [CallBack(CLIENT, b"ticket 1")]
    assert table.called_back(2, b"ticket 1", 0.1) == [Join(1, 2)]
    assert not table.waiting


def test_each_caller_has_a_ticket_of_its_own(table: RelayTable) -> None:
    table.client_came(CLIENT)
    assert table.asked(1, CLIENT, 0.0) == [CallBack(CLIENT, b"ticket 1")]
    assert table.asked(2, CLIENT, 0.0) == [CallBack(CLIENT, b"ticket 2")]
    assert table.called_back(3, b"ticket 2", 0.1) == [Join(2, 3)]
    assert table.called_back(4, b"ticket 1", 0.1) == [Join(1, 4)]


NOT_GOOD = "a peer dialled back with a ticket that is not good, or not any more"


def test_a_ticket_is_good_once(table: RelayTable) -> None:
    table.client_came(CLIENT)
    table.asked(1, CLIENT, 0.0)
    table.called_back(2, b"ticket 1", 0.1)
    assert table.called_back(3, b"ticket 1", 0.2) == [Refuse(3, NOT_GOOD)]


def test_a_ticket_that_was_never_given_is_refused(table: RelayTable) -> None:
    table.client_came(CLIENT)
    table.asked(1, CLIENT, 0.0)
    assert table.called_back(2, b"ticket 2", 0.1) == [Refuse(2, NOT_GOOD)]
    assert table.called_back(3, b"ticket 1", 0.1) == [Join(1, 3)], "and costs nobody else anything"


def test_a_ticket_that_comes_late_is_refused_and_so_is_who_waited(table: RelayTable) -> None:
    table.client_came(CLIENT)
    table.asked(1, CLIENT, 5.0)
    late = Refuse(1, f"the remote driver {CLIENT} did not dial back within {TICKET_SECONDS:g} s")
    assert table.called_back(2, b"ticket 1", 5.0 + TICKET_SECONDS) == [late, Refuse(2, NOT_GOOD)]


def test_who_waits_in_vain_is_told_in_time(table: RelayTable) -> None:
    table.client_came(CLIENT)
    table.asked(1, CLIENT, 0.0)
    table.asked(2, CLIENT, 4.0)
    assert table.tick(TICKET_SECONDS - 0.1) == []
    (refused,) = table.tick(TICKET_SECONDS)
    assert isinstance(refused, Refuse) and refused.caller == 1
    assert table.called_back(3, b"ticket 1", TICKET_SECONDS) == [Refuse(3, NOT_GOOD)]
    assert table.called_back(4, b"ticket 2", TICKET_SECONDS) == [Join(2, 4)]


def test_a_client_that_is_away_for_a_moment_is_waited_for(table: RelayTable) -> None:
    assert table.asked(1, CLIENT, 0.0) == [], "it was never seen, as after the relay has been started anew"
    table.client_came(OTHER)
    assert table.client_came(CLIENT) == [CallBack(CLIENT, b"ticket 1")]
    table.client_left(CLIENT)
    assert table.asked(2, CLIENT, 1.0) == []
    assert table.client_came(CLIENT) == [CallBack(CLIENT, b"ticket 1"), CallBack(CLIENT, b"ticket 2")]


def test_who_has_waited_longest_makes_room(table: RelayTable) -> None:
    table.asked(1, OTHER, 0.0)
    for number in range(MAXIMUM_WAITING):
        assert table.asked(10 + number, CLIENT, 0.0) == []
    assert table.asked(9999, CLIENT, 0.0) == [Refuse(10, f"too many wait for the remote driver {CLIENT}")]
    assert len(table.waiting) == MAXIMUM_WAITING + 1
    table.validate()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["asked", "came", "left", "back", "tick"]),
            st.sampled_from([CLIENT, OTHER, NODE, OWN, "x"]),
            st.integers(0, 40),
            st.floats(0, 4),
        ),
        max_size=80,
    )
)
def test_every_caller_is_answered_once_and_every_ticket_joins_at_most_two(
    steps: list[tuple[str, str, int, float]],
) -> None:
    tickets, numbers, now = itertools.count(), itertools.count(1), 0.0
    table = RelayTable(OWN, lambda: b"%d" % next(tickets))
    table.member(NODE, True)
    asked: set[int] = set()
    answered: list[int] = []

    def note(instructions: list) -> None:  # type: ignore[type-arg]
        for step in instructions:
            if isinstance(step, Join):
                answered.extend((step.caller, step.other))
            elif not isinstance(step, CallBack):
                answered.append(step.caller)

    for what, name, ticket, passed in steps:
        now += passed
        if what in ("asked", "back"):
            number = next(numbers)
            asked.add(number)
            route = (
                table.asked(number, name, now) if what == "asked" else table.called_back(number, b"%d" % ticket, now)
            )
            note(route)
        elif what == "came":
            note(table.client_came(name))
        elif what == "left":
            table.client_left(name)
        else:
            note(table.tick(now))
        table.validate()
    note(table.tick(now + TICKET_SECONDS))
    assert sorted(answered) == sorted(asked)
