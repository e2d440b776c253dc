"""Which source is asked for what."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.pull_plan import (
    Arrived,
    AskSource,
    Cut,
    PlanEvent,
    PlanInstruction,
    PullDone,
    PullFailed,
    PullPlan,
    PullTick,
    Redirected,
    SourceAdded,
    SourceBusy,
    SourceRefused,
)

LIMITS = TransferLimits(
    chunk_bytes=10, asks_per_source=2, patience_seconds=30.0, retry_seconds=0.1, longest_retry_seconds=1.0
)


class Pulled:
    """A plan, the time, and what it has asked for."""

    def __init__(self, size: int = 100, sources: str = "a", limits: TransferLimits = LIMITS) -> None:
        self.now = 0.0
        self.plan = PullPlan(size, "me", limits, self.now)
        self.asks: list[AskSource] = []
        self.end: PlanInstruction | None = None
        for source in sources:
            self.say(SourceAdded(source))

    def say(self, event: PlanEvent) -> None:
        for step in self.plan.handle(event, self.now):
            if isinstance(step, AskSource):
                self.asks.append(step)
            else:
                assert self.end is None
                self.end = step
        self.plan.validate()

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.say(PullTick())

    def take(self) -> AskSource:
        return self.asks.pop(0)

    def arrive(self, count: int = 1) -> None:
        for _ in range(count):
            self.say(Arrived(self.take().number))

    def asked(self) -> list[str]:
        return [ask.source for ask in self.asks]


def test_one_source_gives_all_in_order() -> None:
    pull = Pulled(95)
    assert pull.asks == [AskSource(1, "a", 0, 10)]
    seen = []
    while pull.end is None:
        seen.append(pull.asks[0])
        pull.arrive()
        assert len(pull.asks) <= LIMITS.asks_per_source
    assert [(ask.offset, ask.length) for ask in seen] == [*((start, 10) for start in range(0, 90, 10)), (90, 5)]
    assert pull.end == PullDone() and pull.plan.present.cover(0, 95)


def test_two_sources_are_used_together_a_third_when_one_fails() -> None:
    pull = Pulled(1000, "abc")
    assert pull.asked() == ["a", "b"]
    pull.arrive(2)
    assert sorted(pull.asked()) == ["a", "a", "b", "b"]
    ask = next(ask for ask in pull.asks if ask.source == "a")
    for ask in [ask for ask in pull.asks if ask.source == "a"]:
        pull.asks.remove(ask)
        pull.say(Cut(ask.number, 0, "broke"))
    assert sorted(pull.asked()) == ["b", "b", "c"]


def test_after_a_cut_only_what_is_missing_is_asked_for() -> None:
    pull = Pulled(20)
    pull.arrive()
    pull.say(Cut(pull.take().number, 4, "broke"))
    assert pull.asks == []
    pull.later(0.2)
    assert [(ask.offset, ask.length) for ask in pull.asks] == [(14, 6)]


def test_a_source_that_fails_again_and_again_is_given_up_and_named() -> None:
    pull = Pulled()
    for _ in range(LIMITS.failures_per_source):
        assert pull.end is None
        pull.say(Cut(pull.take().number, 0, "refused the connection"))
        pull.later(1.0)
    assert pull.end == PullFailed("0 of 100 bytes are here; sources: a refused the connection")


def test_failures_with_chunks_in_between_are_forgiven() -> None:
    pull = Pulled(1000)
    for _ in range(3 * LIMITS.failures_per_source):
        for _ in range(len(pull.asks)):
            pull.say(Cut(pull.take().number, 0, "broke"))
        pull.later(1.0)
        pull.arrive()
    assert pull.end is None


def test_every_source_is_named_with_its_words() -> None:
    pull = Pulled(sources="ab")
    pull.say(SourceRefused(pull.take().number, "has not got it"))
    pull.say(SourceRefused(pull.take().number, "can't read its copy: disk"))
    assert pull.end == PullFailed("0 of 100 bytes are here; sources: a has not got it; b can't read its copy: disk")


def test_without_sources_it_says_so() -> None:
    pull = Pulled(sources="")
    pull.later(0.1)
    assert pull.end == PullFailed("0 of 100 bytes are here; sources: none are known")


def test_a_recommended_source_is_asked_instead_and_the_first_is_left_in_peace() -> None:
    pull = Pulled(200)
    pull.say(Redirected(pull.take().number, ("me", "x", "y")))
    assert pull.asked() == ["x"]
    for _ in range(8):
        pull.now += 1.0
        pull.arrive()
        assert set(pull.asked()) == {"x"}
    for _ in range(len(pull.asks)):
        pull.say(Cut(pull.take().number, 0, "died"))
    assert pull.asked() in (["y"], ["a"])


def test_recommendations_are_followed_down_the_tree() -> None:
    pull = Pulled()
    pull.say(Redirected(pull.take().number, ("x", "y")))
    pull.say(Redirected(pull.take().number, ("z",)))
    assert pull.asked() == ["y"]
    pull.say(SourceBusy(pull.take().number, "waits itself"))
    assert pull.asked() == ["z"]


def test_who_is_busy_is_asked_again_ever_more_rarely() -> None:
    pull = Pulled()
    times = []
    while pull.end is None:
        if pull.asks:
            times.append(pull.now)
            pull.say(SourceBusy(pull.take().number, "waits itself"))
        pull.later(0.05)
    assert times[1] - times[0] < 0.2
    assert 0.9 < times[-1] - times[-2] < 1.2
    assert pull.end == PullFailed("nothing came for 30 s; 0 of 100 bytes are here; sources: a waits itself")


def test_bytes_that_come_renew_its_patience() -> None:
    pull = Pulled(30)
    for part in range(3):
        pull.later(29.0)
        assert pull.end is None
        ask = pull.take()
        pull.say(Cut(ask.number, 1, f"broke {part}"))
        pull.later(1.0)
    assert pull.end is None


def test_a_source_that_is_named_again_is_tried_again() -> None:
    pull = Pulled(sources="ab")
    pull.say(SourceRefused(pull.take().number, "has not got it"))
    pull.say(SourceAdded("a"))
    assert pull.asked() == ["b", "a"]
    pull.say(SourceAdded("me"))
    assert pull.asked() == ["b", "a"]


def test_answers_to_nothing_are_ignored() -> None:
    pull = Pulled()
    before = list(pull.asks)
    pull.say(Arrived(99))
    assert pull.asks == before and not pull.plan.present


def test_a_broken_plan_says_what_led_to_it() -> None:
    pull = Pulled()
    pull.plan.present.add(0, 5)
    with pytest.raises(AssertionError, match="(?s)overlap.*latest events.*SourceAdded"):
        pull.plan.validate()


@settings(max_examples=200, deadline=None)
@given(
    size=st.integers(1, 400),
    seed=st.integers(0, 1 << 30),
    asks=st.integers(1, 6),
    per_source=st.integers(1, 3),
    sources_at_once=st.integers(1, 3),
)
def test_any_answers_in_any_order_end_well_or_with_every_source_lost(
    size: int, seed: int, asks: int, per_source: int, sources_at_once: int
) -> None:
    chance = random.Random(seed)
    limits = replace(LIMITS, asks_per_pull=asks, asks_per_source=per_source, sources_at_once=sources_at_once)
    pull = Pulled(size, "abc"[: chance.randint(1, 3)], limits)
    good = chance.random()
    for _ in range(20_000):
        if pull.end is not None:
            break
        if not pull.asks or chance.random() < 0.2:
            pull.later(chance.random())
            continue
        ask = pull.asks.pop(chance.randrange(len(pull.asks)))
        if chance.random() < good:
            pull.say(Arrived(ask.number))
        else:
            pull.say(
                chance.choice(
                    [
                        Cut(ask.number, chance.randint(0, ask.length), "cut"),
                        Redirected(ask.number, tuple(chance.sample("abcdefgh", 2))),
                        SourceBusy(ask.number, "busy"),
                        SourceRefused(ask.number, "refused"),
                    ]
                )
            )
    assert pull.end is not None, f"it never ended: {pull.plan.describe()}"
    assert not pull.plan.asks
    if isinstance(pull.end, PullDone):
        assert pull.plan.present.cover(0, size)
    else:
        nothing_came = "nothing came" in pull.end.reason
        assert nothing_came or all(source.lost for source in pull.plan.sources.values())
