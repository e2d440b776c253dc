"""Who holds permits and who waits, decided without processes or clocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kernel_parallel.coordination.permits import Permits


def test_permits_are_given_in_the_order_of_asking() -> None:
    permits = Permits(2)
    granted = [claim.token for token in "abcd" for claim in permits.ask(token, token, 10, 0)]
    assert granted == ["a", "b"]
    held, granted_now = permits.release("b", 1)
    assert held and [claim.token for claim in granted_now] == ["c"]
    assert permits.release("nobody", 1) == (False, [])


def test_a_lease_that_is_not_renewed_ends() -> None:
    permits = Permits(1)
    permits.ask("a", "a", 10, 0)
    permits.ask("b", "b", 10, 0)
    assert permits.renew("a", 9) and permits.next_expiry() == 19
    assert permits.advance(18.9) == []
    assert [claim.token for claim in permits.advance(19)] == ["b"]
    assert not permits.renew("a", 19) and permits.release("a", 19)[0] is False


def test_who_asks_again_keeps_its_place() -> None:
    permits = Permits(1)
    assert len(permits.ask("a", "a", 10, 0)) == 1 and permits.ask("a", "a", 10, 1) == []
    permits.ask("b", "b", 10, 1)
    permits.ask("c", "c", 10, 1)
    permits.ask("b", "b", 10, 2)
    assert [claim.token for claim in permits.release("a", 3)[1]] == ["b"]


def test_every_grant_has_a_higher_fence() -> None:
    permits = Permits(1)
    fences = []
    for turn in range(5):
        (claim,) = permits.ask(str(turn), "", 1, turn)
        fences.append(claim.fence)
        permits.release(str(turn), turn)
    assert fences == sorted(set(fences))
    later = Permits(1, iter([100]))
    assert later.ask("a", "a", 1, 0)[0].fence == 100


@given(
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from(["ask", "release", "renew", "pass"]), st.sampled_from("abcde")), max_size=60),
)
def test_no_history_gives_away_more_than_there_is(capacity: int, events: list[tuple[str, str]]) -> None:
    permits, now = Permits(capacity), 0.0
    for verb, token in events:
        now += 1
        if verb == "ask":
            permits.ask(token, token, 3, now)
        elif verb == "release":
            permits.release(token, now)
        elif verb == "renew":
            assert permits.renew(token, now) == (token in permits.holders and permits.holders[token].expires > now)
        else:
            permits.advance(now)
        permits.validate()
        assert (
            not permits.waiting
            or len(permits.holders) == capacity
            or any(claim.expires <= now for claim in permits.holders.values())
        )
