"""Orders and machines: what lists, lost answers and restarts change, and what they must not."""

from __future__ import annotations

import json

import pytest
from kernel_autoscaler.core.circuits import FIRST_SECONDS, MOST_SECONDS, Circuits
from kernel_autoscaler.core.machines import GONE_SECONDS, RUNNING, STARTING, TERMINATING, Machines

from kernel_spec.providers import CAPACITY, CREDENTIALS, THROTTLED, UNKNOWN, ProvidedNode


def listed(*ids: str, kind: str = "small", state: str = "running") -> list[ProvidedNode]:
    return [ProvidedNode(id, kind, state) for id in ids]


@pytest.fixture
def machines() -> Machines:
    machines = Machines()
    order = machines.order("small", 2, "test", 0.0)
    machines.created(order.token, ["a", "b"], 1.0)
    return machines


def test_no_two_orders_have_one_token_even_after_a_restart(machines: Machines) -> None:
    again = Machines()
    again.restore(json.loads(json.dumps(machines.plain())))
    assert again.order("small", 1, "test", 2.0).token == "test-2"


def test_ordered_machines_count_before_they_are_there(machines: Machines) -> None:
    machines.order("large", 3, "test", 2.0)
    assert (machines.count(), machines.count("small"), machines.count("large")) == (5, 2, 3)
    machines.enter(machines.machines["a"], TERMINATING, 3.0)
    assert machines.count("small") == 1


def test_a_late_list_makes_nothing_disappear(machines: Machines) -> None:
    assert machines.listed([], {}, 10.0) == [] and machines.listed([], {}, 20.0) == []
    assert set(machines.machines) == {"a", "b"}
    machines.listed(listed("a", "b"), {}, 30.0)
    machines.listed(listed("a"), {}, 40.0)
    machines.listed(listed("a"), {}, 40.0 + GONE_SECONDS)
    assert set(machines.machines) == {"a"}


def test_a_machine_that_was_ended_is_gone_after_two_lists(machines: Machines) -> None:
    machines.enter(machines.machines["a"], TERMINATING, 3.0)
    machines.listed(listed("b"), {}, 4.0)
    assert "a" in machines.machines
    machines.listed(listed("b"), {}, 5.0)
    assert set(machines.machines) == {"b"}


def test_an_order_whose_answer_was_lost_takes_the_machines_that_nobody_knows(machines: Machines) -> None:
    order = machines.order("small", 2, "test", 10.0)
    machines.lose(order.token)
    assert machines.listed(listed("a", "b", "c"), {}, 11.0) == []
    assert machines.machines["c"].state == STARTING and machines.count() == 4
    machines.listed(listed("a", "b", "c"), {}, 20.0)
    machines.listed(listed("a", "b", "c"), {}, 10.0 + GONE_SECONDS)
    assert machines.orders == {} and machines.count() == 3, "the other was never made"


def test_a_machine_of_nobody_is_to_be_ended_when_it_is_seen_twice(machines: Machines) -> None:
    assert machines.listed(listed("a", "b", "c"), {}, 10.0) == []
    (stranger,) = machines.listed(listed("a", "b", "c"), {}, 20.0)
    assert stranger.id == "c"


def test_a_machine_of_nobody_whose_node_has_joined_is_taken_over(machines: Machines) -> None:
    assert machines.listed(listed("a", "b", "c"), {"c": "node"}, 10.0) == []
    assert machines.machines["c"].state == STARTING


def test_while_an_order_is_on_its_way_its_machines_are_nobody_elses(machines: Machines) -> None:
    machines.order("small", 1, "test", 10.0)
    for at in (11.0, 12.0, 13.0):
        assert machines.listed(listed("a", "b", "c"), {}, at) == []


def test_what_was_on_its_way_at_a_restart_is_not_known(machines: Machines) -> None:
    machines.order("large", 1, "test", 10.0)
    again = Machines()
    again.restore(json.loads(json.dumps(machines.plain())))
    assert again.machines == machines.machines and [one.lost for one in again.orders.values()] == [True]
    again.enter(again.machines["a"], RUNNING, 20.0)
    assert machines.machines["a"].state == STARTING, "nothing is shared"


# -- circuits ------------------------------------------------------------------------------------------------------


def test_a_circuit_is_open_for_longer_each_time_and_closes_when_the_kind_works() -> None:
    circuits, now = Circuits(), 0.0
    for failure in range(10):
        circuits.failed("gpu", CAPACITY, "none left", None, now)
        seconds = min(MOST_SECONDS, FIRST_SECONDS[CAPACITY] * 2**failure)
        assert circuits.open("gpu", now + seconds - 0.1) is not None and circuits.open("gpu", now + seconds) is None
        assert circuits.open("cpu", now) is None and circuits.next_end(now) == seconds
        now += seconds
    circuits.worked("gpu")
    circuits.failed("gpu", CAPACITY, "none left", None, now)
    assert circuits.open("gpu", now + FIRST_SECONDS[CAPACITY]) is None


@pytest.mark.parametrize("code", [CREDENTIALS, THROTTLED])
def test_what_concerns_the_account_keeps_every_kind_from_being_asked_for(code: str) -> None:
    circuits = Circuits()
    circuits.failed("gpu", code, "no", 7.0, 0.0)
    found = circuits.open("cpu", 6.9)
    assert found is not None and (found.code, found.text) == (code, "no")
    assert circuits.open("cpu", 7.0) is None


def test_circuits_are_kept_over_a_restart() -> None:
    circuits, again = Circuits(), Circuits()
    circuits.failed("gpu", UNKNOWN, "broken", None, 0.0)
    again.restore(json.loads(json.dumps(circuits.plain())))
    assert again.open("gpu", 1.0) == circuits.open("gpu", 1.0) and again.open("gpu", 1.0) is not None
