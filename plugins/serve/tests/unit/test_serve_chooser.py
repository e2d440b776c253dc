"""Which replica a request goes to, by what is known of each: its place, models and load, and where it was before."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from kernel_serve.routing.chooser import Candidate, Chooser
from kernel_serve.values import Replica


def replica(id: str, limit: int = 2, node: str = "here", models: tuple[str, ...] = ()) -> Replica:
    return Replica(id, node, f"socket of {id}", None, "1", limit, models)


def chooser(*replicas: Replica) -> Chooser:
    found = Chooser(Random(1), "here")
    found.update(replicas)
    return found


def chosen(found: Chooser, *arguments: Any, times: int = 40) -> set[str]:
    """Return all replicas that are chosen in that many times; "" stands for none."""
    candidates = [found.choose(*arguments) for _ in range(times)]
    return {"" if each is None else each.replica.id for each in candidates}


def load(found: Chooser, **sent: int) -> None:
    for id, number in sent.items():
        found.candidates[id].sent = number


def test_the_less_busy_of_two_is_chosen_and_of_equals_any() -> None:
    found = chooser(replica("a", 9), replica("b", 9))
    assert chosen(found) == {"a", "b"}
    load(found, a=3, b=2)
    assert chosen(found) == {"b"}
    found.candidates["b"].load = 4
    assert chosen(found) == {"a"}, "others have sent requests to it, too"
    load(found, a=5)
    assert chosen(found) == {"b"}


def test_of_many_each_has_its_share_and_the_busiest_none() -> None:
    found = chooser(*(replica(id, 9) for id in "abcd"))
    load(found, c=1)
    shares = Counter(found.choose().replica.id for _ in range(4000))  # type: ignore[union-attr]
    assert shares.keys() == {"a", "b", "d"}
    assert min(shares.values()) > 1000


def test_a_replica_has_room_up_to_its_limit_while_it_can_be_reached() -> None:
    candidate = Candidate(replica("a", 2))
    assert candidate.takes_more and candidate.busy == 0
    candidate.load = 1
    assert candidate.takes_more
    candidate.sent = 2
    assert not candidate.takes_more and candidate.busy == 2
    candidate.sent, candidate.load, candidate.reachable = 0, 0, False
    assert not candidate.takes_more


def test_those_on_the_same_node_come_first_while_they_have_room() -> None:
    found = chooser(replica("far", node="there"), replica("a"), replica("b"))
    load(found, a=1, b=1)
    assert chosen(found) == {"a", "b"}
    load(found, a=2)
    assert chosen(found) == {"b"}
    load(found, b=2)
    assert chosen(found) == {"far"}
    load(found, far=2)
    assert chosen(found) == {""}


def test_one_that_is_alone_is_chosen_while_it_has_room() -> None:
    found = chooser(replica("a"))
    assert chosen(found) == {"a"}
    load(found, a=2)
    assert chosen(found) == chosen(Chooser(Random(1), "here")) == {""}


def test_where_the_model_is_loaded_comes_first_wherever_that_is() -> None:
    found = chooser(replica("a"), replica("b"), replica("far", node="there", models=("cat", "dog")))
    assert chosen(found, "dog") == {"far"}
    assert chosen(found, "cow") == chosen(found) == {"a", "b"}
    found.candidates["a"].models = ("dog",)
    assert chosen(found, "dog") == {"a", "far"}
    load(found, a=2, far=2)
    assert chosen(found, "dog") == {"b"}, "it may load it"


def test_where_a_request_was_before_it_goes_only_if_nobody_else_has_room() -> None:
    found = chooser(replica("a"), replica("b"), replica("far", node="there"))
    assert chosen(found, "", ("a",)) == {"b"}
    assert chosen(found, "", ("a", "b", "gone")) == {"far"}
    load(found, far=2, a=1)
    assert chosen(found, "", ("a", "b", "far")) == {"b"}, "the least busy"
    load(found, a=0, b=1)
    assert chosen(found, "", ("a", "b", "far")) == {"a"}
    load(found, a=2, b=2)
    assert chosen(found, "", ("a", "b", "far", "gone")) == {""}


def test_one_that_is_alone_and_has_had_a_request_gets_it_again() -> None:
    found = chooser(replica("a"))
    assert chosen(found, "", ("a",)) == {"a"}
    found.candidates["a"].reachable = False
    assert chosen(found, "", ("a",)) == {""}


def test_a_model_is_no_reason_to_go_back_to_where_a_request_was_before() -> None:
    found = chooser(replica("a", models=("dog",)), replica("b"))
    assert chosen(found, "dog") == {"a"}
    assert chosen(found, "dog", ("a",)) == {"b"}, "it has refused, or died"
    load(found, b=2)
    assert chosen(found, "dog", ("a",)) == {"a"}


def test_news_say_who_is_new_and_who_is_gone_and_keep_what_is_known() -> None:
    found = Chooser(Random(1), "here")
    a, b, c = replica("a"), replica("b", models=("dog",)), replica("c", node="there")
    assert found.update([a, b]) == ([a, b], [])
    load(found, a=2, b=1)
    larger = replica("a", 3)
    assert found.update([larger, c]) == ([c], [b])
    assert found.candidates.keys() == {"a", "c"} and chosen(found, "dog") == {"a"}
    assert found.candidates["a"].sent == 2 and found.candidates["a"].replica is larger
    found.update([replica("a", 3, node="there"), c])
    assert chosen(found) == {"c"}, "both are elsewhere now, and one is less busy"
    assert found.update([]) == ([], [replica("a", 3, node="there"), c]) and chosen(found) == {""}
