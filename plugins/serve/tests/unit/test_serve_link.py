"""Exchanges over a link whose two ends are in this process: what is written at one is fed to the other."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_serve.wire import frames
from kernel_serve.wire.link import EVENT_COST, PIECE, WINDOW, Exchange, ExchangeAbortedError, LinkLostError, RequestLink

Opened = list[tuple[Exchange, Any, bytes, bool]]


def pair(on_notice: Callable[[Any], None] = lambda meta: None) -> tuple[RequestLink, RequestLink, Opened]:
    opened: Opened = []
    router = RequestLink(lambda data: replica.feed(data), None, on_notice)
    replica = RequestLink(lambda data: router.feed(data), lambda *event: opened.append(event))
    return router, replica, opened


def test_a_request_and_its_answer_cross_and_nothing_is_left() -> None:
    router, replica, opened = pair()
    asked = router.open({"type": "call"}, b"ask")
    there, meta, body, end = opened[0]
    assert (meta, body, end) == ({"type": "call"}, b"ask", True)
    there.send(None, b"answer", end=True)
    assert asked.take() == (None, b"answer", True)
    assert asked.closed and there.closed
    assert router.exchanges == replica.exchanges == 0


def test_large_bodies_travel_in_pieces_and_arrive_whole() -> None:
    router, _, opened = pair()
    body = bytes(range(256)) * (3 * PIECE // 256) + b"end"
    router.open(None, body)
    there, _, got, end = opened[0]
    while not end:
        _, more, end = there.take()
        got += more
    assert got == body


def test_an_abort_reaches_the_other_side_with_its_reason() -> None:
    router, replica, opened = pair()
    asked = router.open(None)
    opened[0][0].abort({"reason": "busy"})
    assert isinstance(asked.failure, ExchangeAbortedError)
    assert asked.failure.reason == "busy"
    assert router.exchanges == replica.exchanges == 0


def test_a_lost_link_ends_its_exchanges_and_takes_no_more() -> None:
    router, _, _ = pair()
    closed = []
    asked = router.open(None)
    asked.on_closed = lambda: closed.append(asked)
    router.lost("the replica died")
    assert isinstance(asked.failure, LinkLostError)
    assert closed == [asked]
    with pytest.raises(LinkLostError):
        router.open(None)


def test_a_sender_waits_for_a_slow_reader_and_for_no_other() -> None:
    async def go() -> None:
        router, _, opened = pair()
        slow, quick = router.open(None), router.open(None)
        sender = opened[0][0]
        sent = 0
        while not sender.must_wait:
            sender.send(None, bytes(PIECE))
            sent += PIECE + EVENT_COST
        assert WINDOW <= sent < WINDOW + PIECE + EVENT_COST
        assert not opened[1][0].must_wait
        waiting = asyncio.ensure_future(sender.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        while slow.has_event:
            slow.take()
        await asyncio.wait_for(waiting, 120)
        assert not quick.closed

    asyncio.run(go())


def test_receive_waits_for_events_and_then_for_the_end() -> None:
    async def go() -> None:
        router, _, opened = pair()
        asked = router.open(None, end=False)
        there = opened[0][0]
        receiving = asyncio.ensure_future(asked.receive())
        await asyncio.sleep(0)
        there.send("first", b"1")
        assert await receiving == ("first", b"1", False)
        there.send("last", b"2", end=True)
        assert await asked.receive() == ("last", b"2", True)
        receiving = asyncio.ensure_future(asked.receive())
        await asyncio.sleep(0)
        assert not receiving.done()  # this side has not ended
        asked.send(None, end=True)
        with pytest.raises(ExchangeAbortedError):
            await receiving

    asyncio.run(go())


def test_notices_and_loads_are_heard() -> None:
    notices: list[Any] = []
    loads: list[int] = []
    router = RequestLink(lambda data: None, None, notices.append, loads.append)
    replica = RequestLink(router.feed, lambda *event: None)
    replica.load = 7
    replica.notify({"draining": True})
    assert (notices, loads) == ([{"draining": True}], [7])


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.dictionaries(st.text(), st.integers()), st.binary())),
    st.integers(1, 50),
)
def test_frames_survive_any_cutting(said: list[tuple[int, dict[str, int], bytes]], step: int) -> None:
    whole = b"".join(frames.encode(frames.DATA, 0, 3, number, meta, body) for number, meta, body in said)
    decoder = frames.Decoder()
    got = [frame for at in range(0, len(whole), step) for frame in decoder.feed(whole[at : at + step])]
    assert got == [(frames.DATA, 0, 3, number, meta, body) for number, meta, body in said]


SIZES = st.sampled_from([0, 1, 1000, 65_000, (64 << 10) - frames.HEADER_SIZE, 64 << 10, 200_000, PIECE])


@settings(deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=8), st.lists(st.integers(700, 150_000), min_size=1))
def test_frames_of_any_size_can_be_read_in_any_pieces(sizes: list[int], steps: list[int]) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    whole = b"".join(frames.encode(frames.DATA, 0, 0, 1, None, body) for body in bodies)
    decoder, got, at = frames.Decoder(), [], 0
    for step in itertools.cycle(steps):
        space = decoder.space
        assert len(space), "there is always room"
        piece = whole[at : at + min(len(space), step)]
        space[: len(piece)] = piece
        got += [frame[-1] for frame in decoder.filled(len(piece))]
        at += len(piece)
        if at == len(whole):
            break
    assert got == bodies


def test_the_room_for_an_enormous_frame_is_given_back() -> None:
    decoder = frames.Decoder()
    idle = len(decoder.space)
    whole = frames.encode(frames.NOTICE, 0, 0, 0, "x" * (3 << 20))
    assert [frame[4] for frame in decoder.feed(whole)] == ["x" * (3 << 20)]
    assert len(decoder.space) == idle


def test_what_can_not_be_a_frame_is_refused() -> None:
    with pytest.raises(frames.FrameError, match="can't be right"):
        list(frames.Decoder().feed(b"\xff" * 64))
    router, _, _ = pair()
    with pytest.raises(frames.FrameError, match="can't be opened here"):
        router.feed(frames.encode(frames.OPEN, 0, 0, 1, None))
    with pytest.raises(frames.FrameError, match="no frame of kind 99"):
        router.feed(frames.encode(99, 0, 0, 1, None))


def test_who_listens_hears_of_the_end_before_the_exchanges_fail() -> None:
    heard: list[str] = []
    router = RequestLink(lambda data: None, None, on_lost=heard.append)
    exchange = router.open(None)
    exchange.wake = lambda: heard.append("failed")
    router.lost("killed")
    router.lost("killed again")
    assert heard == ["killed", "failed"]


def test_what_was_opened_after_the_other_side_refused_more_was_not_begun() -> None:
    router, replica, opened = pair()
    begun = router.open(None)
    replica.refuse_more()
    late = router.open(None)
    router.lost("the replica ended")
    assert isinstance(begun.failure, LinkLostError)
    assert isinstance(late.failure, ExchangeAbortedError) and late.failure.reason == "draining"
    assert len(opened) == 2
