"""Whom a node sends what, and whom it sends elsewhere."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.protocol import ABSENT, BUSY, DAMAGED, Want, WantNoMore
from kernel_network_tcp.transfer.ranges import Ranges
from kernel_network_tcp.transfer.upload_table import (
    BytesWanted,
    ConnectionLost,
    Deny,
    Hold,
    MoreReceived,
    NotReceived,
    ObjectHeld,
    ObjectNotHeld,
    Received,
    Receiving,
    Redirect,
    Release,
    Send,
    Sent,
    UploadEvent,
    UploadInstruction,
    UploadTable,
    UploadTick,
)

from kernel_spec.ids import ObjectId

NAME = ObjectId(b"object-of-20-bytes--")
LIMITS = TransferLimits(uploads_per_object=2, stall_seconds=5.0, idle_seconds=30.0)


class Source:
    """A table, the time, and what it said. The connection of a peer has the peer's name's number."""

    def __init__(self, held: bool = True) -> None:
        self.now = 0.0
        self.table = UploadTable(LIMITS)
        self.numbers = 0
        self.held = held

    def say(self, event: UploadEvent) -> list[UploadInstruction]:
        out = self.table.handle(event, self.now)
        if self.held and Hold(NAME) in out:
            out.remove(Hold(NAME))
            out += self.table.handle(ObjectHeld(NAME, 100), self.now)
        self.table.validate()
        return out

    def ask(self, peer: str, offset: int = 0, length: int = 10, size: int = 100) -> list[UploadInstruction]:
        self.numbers += 1
        return self.say(BytesWanted(self.numbers, ord(peer), Want(NAME, size, offset, length, 2.0, peer)))

    def sent(self, step: UploadInstruction, complete: bool = True) -> list[UploadInstruction]:
        assert isinstance(step, Send)
        return self.say(Sent(step.want.object, step.number, complete))

    def later(self, seconds: float) -> list[UploadInstruction]:
        self.now += seconds
        return self.say(UploadTick())


def test_the_object_is_held_while_it_is_sent() -> None:
    source = Source(held=False)
    assert source.ask("a") == [Hold(NAME)]
    assert source.ask("b", 10) == []
    first, second = source.say(ObjectHeld(NAME, 100))
    assert isinstance(first, Send) and (first.connection, first.want.offset) == (ord("a"), 0)
    assert isinstance(second, Send) and (second.connection, second.want.offset) == (ord("b"), 10)
    assert source.sent(first) == source.sent(second) == []
    assert source.say(WantNoMore(NAME, "a", True)) == []
    assert source.say(WantNoMore(NAME, "b", True)) == [Release(NAME)]
    source.later(LIMITS.idle_seconds)
    assert not source.table.busy


def test_who_ends_before_the_last_bytes_are_known_to_be_sent_holds_nothing_either() -> None:
    source = Source()
    (last,) = source.ask("a", 90)
    assert source.say(WantNoMore(NAME, "a", True)) == []
    assert source.sent(last) == [Release(NAME)]
    (first,) = source.ask("a")
    assert source.say(WantNoMore(NAME, "a", False)) == []
    (again,) = source.ask("a", 10)
    assert source.sent(first) == source.sent(again) == [], "it has asked once more"


def test_two_are_served_and_the_others_sent_to_these_in_turn() -> None:
    source = Source()
    for peer in "ab":
        source.sent(source.ask(peer)[0])
    assert source.ask("c") == [Redirect(ord("c"), ("a", "b"))]
    assert source.ask("d") == [Redirect(ord("d"), ("b", "a"))]
    assert isinstance(source.ask("a", 10)[0], Send)


def test_a_slot_is_free_again_and_who_had_it_still_recommended() -> None:
    source = Source()
    for peer in "ab":
        source.sent(source.ask(peer)[0])
    source.say(WantNoMore(NAME, "a", True))
    assert isinstance(source.ask("c")[0], Send)
    (answer,) = source.ask("d")
    assert isinstance(answer, Redirect) and sorted(answer.addresses) == ["a", "b", "c"]


def test_nobody_is_sent_to_who_is_reached_by_a_relay_only() -> None:
    source = Source()
    outside = "tcp://10.0.0.1:6380~0123456789abcdef/transfer"
    (step,) = source.say(BytesWanted(1, 1, Want(NAME, 100, 0, 10, 2.0, outside)))
    source.numbers = 1
    source.sent(step)
    source.sent(source.ask("a")[0])
    assert source.ask("b") == [Redirect(ord("b"), ("a",))]
    source.say(WantNoMore(NAME, outside, True))
    assert isinstance(source.ask("b")[0], Send)


def test_who_gave_up_or_died_is_recommended_no_more() -> None:
    source = Source()
    source.sent(source.ask("a")[0])
    source.say(WantNoMore(NAME, "a", False))
    step = source.ask("b")[0]
    source.sent(step, complete=False)
    source.say(ConnectionLost(ord("b")))
    for peer in "cd":
        source.sent(source.ask(peer)[0])
    assert source.ask("e") == [Redirect(ord("e"), ("c", "d"))]


def test_who_got_all_in_one_chunk_need_not_say_that_it_ends() -> None:
    source = Source()
    for peer in "abcdef":
        (step,) = source.ask(peer, 0, 100)
        assert source.sent(step) == [Release(NAME)]


def test_who_is_silent_loses_its_slot() -> None:
    source = Source()
    source.sent(source.ask("a")[0])
    assert source.later(LIMITS.stall_seconds - 0.1) == []
    assert source.later(0.2) == [Release(NAME)]


def test_what_is_not_there_yet_is_waited_for_so_long_and_no_longer() -> None:
    source = Source()
    present = Ranges()
    present.add(0, 15)
    source.say(Receiving(NAME, 100, present))
    assert isinstance(source.ask("a", 0)[0], Send)
    assert source.ask("b", 10) == []
    present.add(15, 20)
    (step,) = source.say(MoreReceived(NAME))
    assert isinstance(step, Send) and step.want.offset == 10
    source.sent(step)
    assert source.ask("b", 50) == []
    assert source.later(1.9) == []
    assert source.later(0.2) == [Deny(ord("b"), BUSY, "is itself still waiting for these bytes")]


def test_what_arrived_is_held_for_those_who_are_being_sent_it() -> None:
    source = Source()
    source.say(Receiving(NAME, 100, Ranges()))
    assert not source.table.is_wanted(NAME)
    source.ask("a")
    assert source.table.is_wanted(NAME)
    (step,) = source.say(Received(NAME, True))
    assert isinstance(step, Send)
    source.sent(step)
    assert source.say(ConnectionLost(ord("a"))) == [Release(NAME)]


def test_what_arrives_after_it_was_asked_for_is_sent_on() -> None:
    source = Source(held=False)
    assert source.ask("a") == [Hold(NAME)]
    present = Ranges()
    assert source.say(Receiving(NAME, 100, present)) == []
    present.add(0, 10)
    assert isinstance(source.say(MoreReceived(NAME))[0], Send)
    assert source.say(ObjectHeld(NAME, 100)) == [Release(NAME)]


def test_what_will_not_arrive_is_denied_while_what_began_goes_on() -> None:
    source = Source(held=False)
    present = Ranges()
    present.add(0, 10)
    source.say(Receiving(NAME, 100, present))
    (step,) = source.ask("a")
    source.ask("b", 50)
    assert source.say(NotReceived(NAME, "gave up")) == [Deny(ord("b"), ABSENT, "gave up")]
    assert source.table.sends(NAME) == [ord("a")]
    assert source.sent(step) == []
    assert not source.table.busy


def test_what_is_not_here_is_denied_to_all() -> None:
    source = Source(held=False)
    source.ask("a")
    source.ask("b")
    denied = source.say(ObjectNotHeld(NAME, ABSENT, "has not got it"))
    assert denied == [Deny(ord(peer), ABSENT, "has not got it") for peer in "ab"]
    assert not source.table.busy


def test_an_object_of_another_size_is_another_object() -> None:
    source = Source()
    text = "has 100 bytes under that name, where 90 were asked for"
    assert source.ask("a", size=90) == [Deny(ord("a"), DAMAGED, text), Release(NAME)]
    assert source.table.validate() is None and not source.table.busy
    source.sent(source.ask("b")[0])
    assert source.ask("a", size=90) == [Deny(ord("a"), DAMAGED, text)]


def test_a_broken_table_says_what_led_to_it() -> None:
    source = Source()
    source.ask("a")
    source.table.shares[NAME].slots.clear()
    source.table.shares[NAME].sending.clear()
    with pytest.raises(AssertionError, match="(?s)held for nobody.*latest events.*BytesWanted"):
        source.table.validate()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_every_ask_is_answered_once_unless_its_connection_is_lost(seed: int) -> None:
    chance = random.Random(seed)
    source = Source(held=False)
    source.table = UploadTable(replace(LIMITS, uploads_per_object=chance.randint(1, 3)))
    open_asks: dict[int, int] = {}
    sends: list[Send] = []
    lost: set[int] = set()
    holding = receiving = False
    pins = 0
    present = Ranges()

    def carry_out(steps: list[UploadInstruction]) -> None:
        nonlocal holding, pins
        for step in steps:
            if isinstance(step, Hold):
                assert not holding, "it asks twice for the same"
                holding = True
            elif isinstance(step, Release):
                pins -= 1
                assert pins >= 0, "it releases what it does not hold"
            elif isinstance(step, Send):
                sends.append(step)
            else:
                assert open_asks.pop(step.connection) > 0

    for turn in range(300):
        free = [c for c in range(1, 9) if c not in open_asks and c not in lost]
        choice = chance.random()
        if choice < 0.4 and free:
            connection = chance.choice(free)
            offset = chance.randrange(0, 91, 10)
            open_asks[connection] = turn + 1
            want = Want(NAME, 100, offset, chance.choice([10, 100 - offset]), 2.0, f"peer-{connection % 5}")
            carry_out(source.say(BytesWanted(turn + 1, connection, want)))
        elif choice < 0.6 and sends:
            step = sends.pop(chance.randrange(len(sends)))
            complete = step.connection not in lost and chance.random() < 0.9
            open_asks.pop(step.connection, None)
            carry_out(source.say(Sent(step.want.object, step.number, complete)))
        elif choice < 0.65 and holding:
            holding = False
            if receiving or chance.random() < 0.3:
                carry_out(source.say(ObjectNotHeld(NAME, ABSENT, "no")))
            else:
                pins += 1
                carry_out(source.say(ObjectHeld(NAME, 100)))
        elif choice < 0.7 and not receiving and not pins and not holding:
            receiving, present = True, Ranges()
            carry_out(source.say(Receiving(NAME, 100, present)))
        elif choice < 0.8 and receiving:
            start = chance.randrange(0, 91, 10)
            present.add(start, start + 10)
            carry_out(source.say(MoreReceived(NAME)))
        elif choice < 0.84 and receiving and not (sends and present.total < 100):
            receiving = False
            if present.total == 100:
                held = source.table.is_wanted(NAME)
                pins += held
                carry_out(source.say(Received(NAME, held)))
            else:
                carry_out(source.say(NotReceived(NAME, "no")))
        elif choice < 0.9:
            connection = chance.randint(1, 8)
            if connection not in lost and connection not in {step.connection for step in sends}:
                open_asks.pop(connection, None)
                carry_out(source.say(ConnectionLost(connection)))
        elif choice < 0.95:
            carry_out(source.say(WantNoMore(NAME, f"peer-{chance.randint(0, 4)}", chance.random() < 0.5)))
        else:
            carry_out(source.later(chance.choice([0.5, 3.0, 10.0])))
    for step in sends:
        open_asks.pop(step.connection)
        carry_out(source.say(Sent(step.want.object, step.number, True)))
    if holding:
        carry_out(source.say(ObjectNotHeld(NAME, ABSENT, "no")))
    for _ in range(4):
        carry_out(source.later(40.0))
    assert not open_asks and not source.table.busy and not pins
