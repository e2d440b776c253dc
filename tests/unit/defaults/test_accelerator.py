"""The devices on paper keep the contract."""

from __future__ import annotations

from kernel.conformance.accelerator import AcceleratorConformance
from kernel.defaults.accelerator import VISIBLE, NullAccelerator


class TestThree(AcceleratorConformance):
    make_accelerator = staticmethod(lambda: NullAccelerator(3))
    least_devices = 3


class TestNone(AcceleratorConformance):
    make_accelerator = staticmethod(NullAccelerator)


class TestRestricted(AcceleratorConformance):
    make_accelerator = staticmethod(lambda: NullAccelerator(4, resource="TPU"))
    environment = {VISIBLE: "null-TPU-3,null-TPU-1"}
    least_devices = 2


def test_an_empty_variable_allows_none() -> None:
    assert NullAccelerator(3).detect({VISIBLE: ""}) == []


def test_devices_are_named_by_resource_and_number() -> None:
    assert NullAccelerator(2).isolate([1], {1: 1.0}, {}) == {VISIBLE: "null-GPU-1"}
