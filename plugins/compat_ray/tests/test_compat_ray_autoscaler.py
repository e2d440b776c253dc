"""What a program asks its cluster to have room for."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_compat_ray.resource_requests import request_resources

import kernel


@pytest.mark.parametrize(
    ("asked", "bundles"),
    [
        ({"num_cpus": 2}, [{"CPU": 1.0}, {"CPU": 1.0}]),
        ({"bundles": [{"GPU": 1}]}, [{"GPU": 1}]),
        ({"num_cpus": 1, "bundles": [{"GPU": 1}]}, [{"CPU": 1.0}, {"GPU": 1}]),
        ({}, []),
    ],
)
def test_cpus_and_bundles_are_asked_for(
    asked: dict[str, Any], bundles: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    monkeypatch.setattr(kernel, "request_resources", heard.append)
    request_resources(**asked)
    assert heard == [bundles]
