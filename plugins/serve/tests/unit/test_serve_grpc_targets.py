"""Which deployment answers a gRPC call."""

from __future__ import annotations

from random import Random

import pytest
from kernel_serve.errors import NotServingError
from kernel_serve.proxy.grpc_targets import Targets
from kernel_serve.values import Endpoint, Target

PEER = "ipv4:127.0.0.1:4711"


def targets(**prefixes: str) -> Targets:
    """Return what finds the targets of applications with these prefixes ("": none)."""
    found = Targets(Random(1))
    found.learn([Endpoint(name, prefix, (Target(f"{name}#D"),)) for name, prefix in prefixes.items()])
    return found


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        ({"a": "/a"}, "a#D"),
        ({"a": ""}, "a#D"),
        ({"a": "/a", "b": "", "c": ""}, "a#D"),
        ({"a": "/a", "b": "/b"}, None),
        ({"a": "", "b": ""}, None),
    ],
)
def test_a_call_without_a_name_goes_to_the_only_application(prefixes: dict[str, str], expected: str | None) -> None:
    found = targets(**prefixes)
    if expected is not None:
        assert found.find("", (), PEER).target == expected
        return
    names = ", ".join(prefixes)
    with pytest.raises(NotServingError) as caught:
        found.find("", (), PEER)
    assert str(caught.value) == (
        f"the call names no application: give one of these in the metadata as 'application': {names}"
    )


def test_every_application_can_be_named() -> None:
    found = targets(a="/a", b="")
    assert [found.find(name, (), PEER).target for name in "ab"] == ["a#D", "b#D"]
    with pytest.raises(NotServingError, match="there is no application 'c': give one of these .*: a, b"):
        found.find("c", (), PEER)
    with pytest.raises(NotServingError, match="no application takes calls from outside yet: deploy one with serve.run"):
        targets().find("", (), PEER)


def test_calls_are_split_and_stay_by_their_metadata_or_their_client() -> None:
    split = (Target("a#D", 0.5), Target("b#D", 0.5))
    found = Targets(Random(1))
    endpoints = [Endpoint("turns", "/t", split), Endpoint("keys", "/k", split, sticky="header:user")]
    found.learn([*endpoints, Endpoint("clients", "/c", split, sticky="client")])
    assert sorted(found.find("turns", (), PEER).target for _ in range(4)) == ["a#D", "a#D", "b#D", "b#D"]
    for name, users in (("keys", (("user", "anna"), ("user", b"ben"))), ("clients", ())):
        for user in users:
            assert len({found.find(name, (user,), PEER).target for _ in range(9)}) == 1
        if not users:
            assert len({found.find(name, (), f"ipv4:127.0.0.1:{port}").target for port in range(9)}) == 1


def test_shadows_get_their_share() -> None:
    found = Targets(Random(1))
    found.learn([Endpoint("a", "/a", (Target("a#D"),), shadows=(Target("b#D", 0.5),))])
    assert sum(len(found.find("a", (), PEER).shadows) for _ in range(10)) == 5
