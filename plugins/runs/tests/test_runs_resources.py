"""What runs need: numbers, bundles, and dicts of either."""

from __future__ import annotations

from typing import Any

import pytest

from kernel_runs import PlacementGroupFactory, Resources, RunError
from kernel_runs.resources import make_request, total


def test_a_dict_means_the_run_and_its_other_names_are_custom() -> None:
    assert make_request(None) == Resources() and make_request({}) == Resources()
    request = make_request({"cpu": 2, "GPU": 0.5, "memory": 10, "shelf": 1, "extra_cpu": 3, "resources": {"a": 4}})
    assert request == Resources(
        cpu=2.0, gpu=0.5, memory=10.0, extra_cpu=3.0, custom_resources={"shelf": 1.0, "a": 4},
    )  # fmt: skip
    assert request.own() == {"CPU": 2.0, "GPU": 0.5, "memory": 10.0, "shelf": 1.0, "a": 4.0}
    assert request.extra() == {"CPU": 3.0}
    assert request.bundles() == [request.own(), request.extra()] and request.strategy == "PACK"
    assert make_request({"num_gpus": 1}).own() == {"CPU": 1.0, "GPU": 1.0}
    assert make_request({"extra_custom_resources": {"b": 2}}).bundles() == [{"CPU": 1.0}, {"b": 2.0}]
    assert make_request({"cpu": 0}).bundles() == [{}]
    assert make_request({"object_store_memory": 5, "extra_object_store_memory": 6, "extra_memory": 7}).bundles() == [
        {"CPU": 1.0, "object_store_memory": 5.0},
        {"object_store_memory": 6.0, "memory": 7.0},
    ]
    assert Resources(extra_gpu=1).extra() == {"GPU": 1.0}
    factory = PlacementGroupFactory([{"CPU": 1}])
    assert make_request(factory) is factory and make_request(request) is request


def test_bundles_are_reserved_together() -> None:
    factory = PlacementGroupFactory([{"CPU": 1, "GPU": 0}, {"CPU": 2, "shelf": 1}], strategy="SPREAD")
    assert factory.bundles() == [{"CPU": 1.0}, {"CPU": 2.0, "shelf": 1.0}] and factory.strategy == "SPREAD"
    assert factory.required_resources == {"CPU": 3.0, "shelf": 1.0} and total([]) == {}
    with pytest.raises(ValueError, match=r"needs at least one bundle, such as \{'CPU': 1\}"):
        PlacementGroupFactory([])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("all", "resources are 'all': they are a dict such as"),
        ({"cpu": -1}, "resource 'cpu' of a trial is -1: it is a number of at least 0"),
        ({"cpu": True}, "resource 'cpu' of a trial is True"),
        ({"shelf": "1"}, "resource 'shelf' of a trial is '1'"),
    ],
)
def test_what_is_no_amount_is_named(given: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        make_request(given)
