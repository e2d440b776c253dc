"""Which name somebody may have meant."""

from __future__ import annotations

import pytest

from kernel_spec.nearest import nearest

NAMES = ["num_cpus", "num_gpus", "resources", "MaxFailures"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("num_cpu", "num_cpus"), ("NUM-GPUS", "num_gpus"), ("resource", "resources"), ("max_failures", "MaxFailures"),
        ("xyz", None), ("", None), (7, None),
    ],
)  # fmt: skip
def test_the_most_alike_is_named(name: object, expected: str | None) -> None:
    assert nearest(name, NAMES) == expected


def test_how_much_alike_they_must_be() -> None:
    assert nearest("number", NAMES, 0.2) is not None
    assert nearest("num_cpu", NAMES, 0.99) is None
    assert nearest("anything", []) is None
