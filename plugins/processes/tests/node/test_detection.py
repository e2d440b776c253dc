"""What a node offers: what was given, and for the rest what its machine has."""

from __future__ import annotations

import resource

import pytest

from kernel_processes.node.detection import choose_store_bytes, count_cpus, total_resources
from kernel_spec.accelerators import Device

DEVICES = {
    "GPU": [Device(0, "a", "Big Card"), Device(1, "b", "Big Card"), Device(2, "c")],
    "TPU": [Device(0, "d", "Grid")],
}


def test_devices_count_and_name_their_models() -> None:
    total = total_resources({}, DEVICES, "127.0.0.1", 64 << 20)
    assert (total["CPU"], total["GPU"], total["TPU"]) == (count_cpus(), 3, 1)
    models = {name for name in total if name.startswith("accelerator_type:")}
    assert models == {"accelerator_type:Big-Card", "accelerator_type:Grid"}
    assert total["object_store_memory"] == 64 << 20


def test_what_is_given_takes_the_place_of_what_was_found_and_none_of_it_is_not_there() -> None:
    total = total_resources({"CPU": 7, "GPU": 0, "seat": 2}, DEVICES, "10.0.0.1", 1)
    assert (total["CPU"], total["seat"], total["node:10.0.0.1"]) == (7, 2, 1)
    assert "GPU" not in total


@pytest.mark.parametrize(
    ("limit", "chosen"),
    [
        (resource.RLIM_INFINITY, 3 << 30),
        (64 << 30, 3 << 30),
        (4 << 30, 512 << 20),
        (100 << 20, 64 << 20),
    ],
)
def test_the_store_is_as_large_as_free_memory_and_address_space_allow(
    limit: int, chosen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_processes.node.detection.available_memory", lambda: 10 << 30)
    monkeypatch.setattr("resource.getrlimit", lambda which: (limit, limit))
    assert choose_store_bytes(0) == pytest.approx(chosen)
    assert choose_store_bytes(1 << 40) == 1 << 40
