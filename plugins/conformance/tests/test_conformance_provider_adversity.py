"""The careful caller: it finds nothing wrong with a provider that is right, and what others do wrong."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from kernel_conformance.provider_adversity import adversity

from kernel_spec.providers import ProvidedNode


class CountedCloud:
    """Makes machines at once: with `repeats` once for a token. Without `ends` one of them never ends."""

    name = "counted"

    def __init__(self, repeats: bool = True, ends: bool = True) -> None:
        self._repeats, self._ends = repeats, ends
        self._tokens: dict[str, list[str]] = {}
        self._numbers = itertools.count()
        self.there: dict[str, str] = {}

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        return {"small": {"CPU": 1.0}, "large": {"CPU": 8.0}}

    def list(self) -> Sequence[ProvidedNode]:
        return [ProvidedNode(id, kind, "running") for id, kind in self.there.items()]

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        if not (self._repeats and token in self._tokens):
            self._tokens[token] = [f"m-{next(self._numbers)}" for _ in range(count)]
            self.there |= dict.fromkeys(self._tokens[token], kind)
        return self._tokens[token]

    def terminate(self, ids: Sequence[str]) -> None:
        for id in ids:
            if self._ends or id != "m-2":
                self.there.pop(id, None)


class WithoutTokens(CountedCloud):
    """Can't repeat a call."""

    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:  # type: ignore[override]
        return super().create(kind, count, join)


def found(make_cloud: Callable[..., CountedCloud], **wrong: bool) -> list[str]:
    """Return what is found wrong with clouds in some runs, one for each."""
    problems: list[str] = []
    for seed in range(5):
        cloud = make_cloud(**wrong)
        make: Callable[..., Any] = lambda clock, cloud=cloud: cloud
        problems += adversity(make, lambda cloud=cloud: list(cloud.there), seed)  # type: ignore[misc]
    return problems


def test_nothing_is_wrong_with_a_provider_that_is_right() -> None:
    assert found(CountedCloud) == []


def test_machines_that_are_made_twice_are_found() -> None:
    assert any(
        "more machines are there than were asked for" in problem for problem in found(CountedCloud, repeats=False)
    )


def test_machines_that_stay_are_found() -> None:
    assert any("are left after all were ended" in problem for problem in found(CountedCloud, ends=False))


def test_a_provider_without_tokens_can_not_be_tried() -> None:
    with pytest.raises(TypeError, match="create of the node provider 'counted' takes no token: nothing can be repeat"):
        found(WithoutTokens)
