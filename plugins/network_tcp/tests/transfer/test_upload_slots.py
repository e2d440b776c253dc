"""Which nodes take one object from here, and to which ones all others are sent."""

from __future__ import annotations

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.upload_slots import MAXIMUM_HELPERS, RECOMMENDED, UploadSlots

LIMITS = TransferLimits(uploads_per_object=2, stall_seconds=5.0, idle_seconds=30.0)


def taken(*askers: str) -> UploadSlots:
    """Return slots that these nodes took at 0 s, over the connections 1, 2, ..."""
    slots = UploadSlots(LIMITS)
    for connection, asker in enumerate(askers, 1):
        slots.take(asker, connection, 0.0)
    return slots


def test_a_node_has_room_if_it_has_a_slot_or_one_is_left() -> None:
    slots = taken("a", "b")
    assert [slots.has_room(asker) for asker in "abc"] == [True, True, False]
    slots.free("a")
    slots.free("nobody")
    assert slots.has_room("c") and len(slots) == 1 and "b" in slots and "a" not in slots


def test_nodes_are_recommended_in_turn_but_not_to_themselves() -> None:
    slots = taken("a", "b")
    assert [slots.recommend("c") for _ in range(3)] == [("a", "b"), ("b", "a"), ("a", "b")]
    assert slots.recommend("a") == ("b",)
    slots.free("a")
    assert set(slots.recommend("c")) == {"a", "b"}, "who had a slot helps on"


def test_few_nodes_are_named_and_not_too_many_remembered() -> None:
    slots = UploadSlots(LIMITS)
    for number in range(MAXIMUM_HELPERS + 1):
        slots.take(f"{number:03}", number, 0.0)
    assert len(slots.recommend("x")) == RECOMMENDED
    named = {address for _ in range(5 * MAXIMUM_HELPERS) for address in slots.recommend("x")}
    assert len(named) == MAXIMUM_HELPERS and f"{MAXIMUM_HELPERS:03}" not in named


def test_nobody_is_sent_to_a_node_behind_a_relay() -> None:
    slots = taken("tcp://10.0.0.1:6380~0123456789abcdef/transfer")
    assert len(slots) == 1 and not slots.has_helpers


def test_a_node_that_is_distrusted_keeps_its_slot() -> None:
    slots = taken("a", "b")
    slots.distrust("a")
    assert "a" in slots and slots.recommend("c") == ("b",)


def test_it_is_known_which_node_wants_no_more_until_it_asks_again() -> None:
    slots = taken("a")
    assert not slots.use("a", 1.0) and not slots.use("nobody", 1.0)
    slots.end("a")
    slots.end("nobody")
    assert slots.use("a", 1.0) and "a" in slots
    slots.take("a", 1, 2.0)
    assert not slots.use("a", 2.0)


def test_a_node_is_forgotten_with_its_last_connection() -> None:
    slots = taken("a", "b")
    slots.take("a", 3, 0.0)
    slots.connection_lost(1)
    assert "a" in slots and slots.recommend("c") == ("a", "b")
    slots.connection_lost(3)
    assert "a" not in slots and "b" in slots and slots.recommend("c") == ("b",)


def test_silent_nodes_lose_their_slots_and_help_for_a_while_longer() -> None:
    slots = taken("a", "b", "c")
    slots.use("c", 1.0)
    slots.expire({"b"}, 5.0)
    assert [asker in slots for asker in "abc"] == [False, True, True]
    slots.free("c")
    slots.expire({"b"}, 29.9)
    assert set(slots.recommend("x")) == {"a", "b", "c"}
    slots.expire({"b"}, 30.0)
    assert slots.recommend("x") == ("b",), "who has a slot is not forgotten"
    slots.expire((), 30.0)
    slots.expire((), 30.0)
    assert not len(slots) and not slots.has_helpers


def test_all_can_be_forgotten_at_once() -> None:
    slots = taken("a", "b")
    slots.clear()
    assert not len(slots) and not slots.has_helpers
