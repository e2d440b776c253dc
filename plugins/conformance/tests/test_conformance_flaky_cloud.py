"""The cloud that fails: each trouble comes, is of its kind, and comes again with the same seed."""

from __future__ import annotations

import random
from collections import Counter

from kernel_conformance.flaky_cloud import FlakyCloud

from kernel.defaults.provider import ManualNodeProvider
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, THROTTLED, UNKNOWN


def run(seed: int) -> tuple[Counter[str], list[str]]:
    """Make and end nodes many times; return what happened how often, and the ids of what is there at the end."""
    provider, now, happened = ManualNodeProvider({"kinds": {"small": {"CPU": 1}}}), [0.0], Counter[str]()
    cloud = FlakyCloud(provider, random.Random(seed), lambda: now[0])
    for _ in range(600):
        now[0] += 5.0
        before = {node.id for node in provider.list()}
        try:
            made = cloud.create("small", 3, {})
            happened["made"] += 1
            happened["partly"] += len(made) < 3
        except NodeProviderError as error:
            grown = {node.id for node in provider.list()} > before
            happened[f"{error.code}{' with effect' if grown else ''}"] += 1
        try:
            listed = {node.id for node in cloud.list()}
            true = {node.id for node in provider.list()}
            happened["late"] += bool(true - listed)
            happened["seen again"] += bool(listed - true)
        except NodeProviderError as error:
            happened[f"list {error.code}"] += 1
        try:
            cloud.terminate(sorted(before)[:2])
        except NodeProviderError as error:
            happened[f"terminate {error.code}"] += 1
    return happened, [node.id for node in provider.list()]


def test_every_trouble_comes_and_is_of_its_kind() -> None:
    happened, _ = run(1)
    wanted = {
        "made", "partly", CAPACITY, THROTTLED, UNKNOWN, f"{UNKNOWN} with effect", "late", "seen again",
        f"list {THROTTLED}", f"terminate {THROTTLED}", f"terminate {UNKNOWN}",
    }  # fmt: skip
    assert {name for name, count in happened.items() if count} == wanted, "without capacity nothing is made"


def test_the_same_seed_gives_the_same_troubles() -> None:
    assert run(2) == run(2) and run(2)[0] != run(3)[0]
