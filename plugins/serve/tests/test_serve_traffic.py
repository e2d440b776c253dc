"""Which way a request goes: by path, method, weight and key."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_serve.errors import DeploymentError
from kernel_serve.traffic.endpoint_table import EndpointTable, MethodNotAllowed, ServedEndpoint, check
from kernel_serve.traffic.paths import Prefixes
from kernel_serve.traffic.sticky import Draw, key_reader
from kernel_serve.traffic.turns import Shares, Turns
from kernel_serve.values import Endpoint, Target


def endpoint(name: str, prefix: str, *targets: tuple[str, float], **more: Any) -> Endpoint:
    return Endpoint(name, prefix, tuple(Target(*each) for each in targets or [(f"{name}#d", 1.0)]), **more)


def table_of(*endpoints: Endpoint, seed: int = 1) -> EndpointTable:
    return EndpointTable(endpoints, Random(seed))


def name_of(found: ServedEndpoint | MethodNotAllowed | None) -> str:
    assert isinstance(found, ServedEndpoint), found
    return found.endpoint.name


# Paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "root"),
        ("/x", "root"),
        ("/a", "a"),
        ("/a/", "a"),
        ("/a/c", "a"),
        ("/ab", "root"),
        ("/a/b", "ab"),
        ("/a/b/c/d/e/f", "ab"),
        ("/a/bc", "a"),
        ("/a//b", "a"),
        ("//", "root"),
        ("/long/one/two/three", "long"),
        ("/long/one/two", "root"),
    ],
)
def test_the_longest_prefix_wins_at_the_border_of_a_segment(path: str, expected: str) -> None:
    table = Prefixes({"/": "root", "/a": "a", "/a/b/": "ab", "/long/one/two/three": "long"})
    assert table.find(path) == expected


def test_what_has_no_prefix_is_not_found() -> None:
    table = Prefixes({"/a": 1})
    assert [table.find(path) for path in ("/", "/b", "/b/a", "", "*", "a")] == [None] * 6
    assert Prefixes({}).find("/") is None


@settings(deadline=None)
@given(st.sets(st.text("ab/", max_size=6)), st.text("ab/", max_size=9))
def test_it_finds_what_a_look_at_all_prefixes_finds(tails: set[str], tail: str) -> None:
    prefixes = {("/" + each).rstrip("/") for each in tails}
    path = "/" + tail
    fitting = [each for each in prefixes if path == each or path.startswith(each + "/")]
    assert Prefixes({each: each for each in prefixes}).find(path) == (max(fitting, key=len) if fitting else None)


# Methods


def test_methods_share_a_prefix_and_others_are_told_which_there_are() -> None:
    table = table_of(
        endpoint("read", "/x", methods=frozenset({"get"})), endpoint("write", "/x/", methods=frozenset({"POST", "PUT"}))
    )
    assert name_of(table.find("/x/1", "GET")) == "read" and name_of(table.find("/x", "HEAD")) == "read"
    assert name_of(table.find("/x", "PUT")) == "write"
    assert table.find("/x", "DELETE") == MethodNotAllowed("GET, HEAD, POST, PUT")
    assert table.find("/y", "GET") is None


def test_an_endpoint_without_methods_takes_those_that_no_other_takes() -> None:
    table = table_of(endpoint("all", "/x"), endpoint("write", "/x", methods=frozenset({"POST"})))
    assert name_of(table.find("/x", "POST")) == "write" and name_of(table.find("/x", "DELETE")) == "all"


# Weights


@pytest.mark.parametrize("weights", [(7, 3), (0.5, 0.5), (0.99, 0.01), (1,), (1, 0), (5, 3, 2), (1, 1, 1, 1, 6)])
def test_in_every_stretch_of_turns_each_has_its_share(weights: tuple[float, ...]) -> None:
    turns = Turns(weights, Random(3))
    order = [turns.next() for _ in range(400)]
    shares = [weight / sum(weights) for weight in weights]
    bound = 1 if len(weights) <= 2 else 2
    for begin in range(0, 200, 7):
        for length in (1, 2, 3, 5, 10, 17, 100, 200):
            counts = Counter(order[begin : begin + length])
            for index, share in enumerate(shares):
                assert abs(counts[index] - share * length) <= bound + 1e-6, (begin, length, index)


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=8))
def test_turns_never_drift_from_the_shares(weights: list[float]) -> None:
    turns, counts = Turns(weights), Counter[int]()
    for number in range(1, 300):
        counts[turns.next()] += 1
        for index, weight in enumerate(weights):
            assert abs(counts[index] - number * weight / sum(weights)) < 1 + 1e-6


def test_several_proxies_do_not_all_begin_with_the_heaviest() -> None:
    first = Counter(Turns((9, 1), Random(seed)).next() for seed in range(500))
    assert 20 < first[1] < 90


def test_a_share_of_the_requests_is_copied_evenly() -> None:
    shares = Shares((0.1, 1.0, 0.0))
    chosen = [shares.next() for _ in range(30)]
    assert [number for number, each in enumerate(chosen) if 0 in each] == [9, 19, 29]
    assert all(1 in each and 2 not in each for each in chosen)


# Keys


def test_keys_spread_by_weight() -> None:
    draw = Draw([("a", 7), ("b", 3), ("none", 0)])
    counts = Counter(draw.of(str(number).encode()) for number in range(20_000))
    assert counts[2] == 0 and abs(counts[0] / 20_000 - 0.7) < 0.015


def test_a_change_of_weights_moves_as_few_keys_as_it_can_and_only_to_who_gains() -> None:
    keys = [str(number).encode() for number in range(20_000)]
    before, after = Draw([("a", 0.9), ("b", 0.1)]), Draw([("a", 0.8), ("b", 0.2)])
    moved = [(before.of(key), after.of(key)) for key in keys if before.of(key) != after.of(key)]
    assert set(moved) == {(0, 1)} and abs(len(moved) / len(keys) - 0.1) < 0.01
    third = Draw([("a", 0.9), ("b", 0.1), ("c", 0.25)])
    assert {third.of(key) for key in keys if third.of(key) != before.of(key)} == {2}


def test_the_choice_is_the_same_in_every_process() -> None:
    draw = Draw([("app#a", 0.5), ("app#b", 0.5)])
    assert [draw.of(key) for key in (b"anna", b"ben", b"clara", b"dora", b"emil", b"finn")] == [0, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("sticky", "scope", "expected"),
    [
        ("header:X-User", {"headers": [(b"x-user", b"anna")]}, b"anna"),
        ("header:X-User", {"headers": [(b"x-other", b"anna")]}, None),
        ("cookie:id", {"headers": [(b"cookie", b"xid=1; id=7 ; id2=8")]}, b"7"),
        ("cookie:id", {"headers": [(b"cookie", b"xid=1; id2=8"), (b"cookie", b"id=9")]}, b"9"),
        ("cookie:id", {"headers": [(b"cookie", b"id=")]}, None),
        ("query:u", {"query_string": b"a=1&u=an%20na&u=2", "headers": []}, b"an na"),
        ("query:u", {"query_string": b"uu=1", "headers": []}, None),
        ("client", {"client": ("10.0.0.1", 4711), "headers": []}, b"10.0.0.1"),
        ("client", {"client": None, "headers": []}, None),
    ],
)
def test_where_the_key_comes_from(sticky: str, scope: dict[str, Any], expected: bytes | None) -> None:
    read = key_reader(sticky)
    assert read is not None and read(scope) == expected


def test_sticky_requests_stay_and_those_without_a_key_take_turns() -> None:
    served = table_of(endpoint("e", "/", ("a", 1), ("b", 1), sticky="header:u")).find("/")
    assert isinstance(served, ServedEndpoint)
    for user in (b"anna", b"ben", b"clara"):
        assert len({served.target({"headers": [(b"u", user)]}) for _ in range(9)}) == 1
    assert Counter(served.target({"headers": []}) for _ in range(10)) == {"a": 5, "b": 5}


# The table


def test_an_endpoint_that_stays_as_it_is_goes_on_where_its_split_is() -> None:
    split = endpoint("s", "/s", ("a", 1), ("b", 1))
    table, order = table_of(split), []
    for number in range(20):
        table = EndpointTable([split, endpoint("other", f"/{number}")], Random(number), before=table)
        served = table.find("/s")
        assert isinstance(served, ServedEndpoint)
        order.append(served.target({"headers": []}))
    assert Counter(order) == {"a": 10, "b": 10}


def test_shadows_are_told_for_each_request() -> None:
    served = table_of(endpoint("e", "/", shadows=(Target("s", 0.5),))).find("/")
    assert isinstance(served, ServedEndpoint)
    assert sum(list(served.shadows()) == ["s"] for _ in range(10)) == 5
    plain = table_of(endpoint("e", "/")).find("/")
    assert isinstance(plain, ServedEndpoint) and plain.shadows() == ()


def test_the_table_as_text() -> None:
    table = table_of(
        endpoint("b", "/b"),
        endpoint("a", "/"),
        endpoint("w", "/c", methods=frozenset({"PUT"})),
        endpoint("r", "/c", methods=frozenset({"GET"})),
    )
    assert json.loads(table.text()) == {"/": "a", "/b": "b", "/c": ["r", "w"]}


@pytest.mark.parametrize(
    ("given_endpoint", "message"),
    [
        (endpoint("e", "x"), "the prefix of endpoint 'e' begins with '/', it is not 'x'"),
        (Endpoint("e", "/", ()), "endpoint 'e' has no target: name at least one deployment"),
        (endpoint("e", "/", ("a", -1)), "endpoint 'e' gives a weight -1: weights are from 0 on"),
        (endpoint("e", "/", ("a", float("nan"))), "endpoint 'e' gives a weight nan: weights are from 0 on"),
        (endpoint("e", "/", ("a", 0)), "all targets of endpoint 'e' have weight 0: one at least needs more"),
        (
            endpoint("e", "/", shadows=(Target("s", 2),)),
            "endpoint 'e' gives its shadow s a share of 2: a share is from 0 to 1",
        ),
        (
            endpoint("e", "/", sticky="ip"),
            "sticky is 'header:NAME', 'cookie:NAME', 'query:NAME' or 'client', or '' for not at all, not 'ip'",
        ),
        (endpoint("e", "/there/"), "endpoint 'e' can't have prefix '/there/': endpoint 'all' has it already"),
        (
            endpoint("e", "/get", methods=frozenset({"HEAD", "PUT"})),
            "endpoint 'e' can't have prefix '/get' for HEAD: endpoint 'get' has it already",
        ),
    ],
)
def test_what_cannot_be_served_is_refused(given_endpoint: Endpoint, message: str) -> None:
    there = [endpoint("all", "/there"), endpoint("get", "/get", methods=frozenset({"GET"}))]
    with pytest.raises(DeploymentError) as caught:
        check(given_endpoint, there)
    assert str(caught.value) == message


def test_an_endpoint_may_replace_itself_and_share_a_prefix_by_methods() -> None:
    there = [endpoint("get", "/get", methods=frozenset({"GET"}))]
    check(endpoint("get", "/get"), there)
    check(endpoint("put", "/get", methods=frozenset({"PUT"})), there)
    check(endpoint("rest", "/get"), there)
