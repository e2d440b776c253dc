"""The benchmark of conditions on labels asks for what it says."""

from __future__ import annotations

import pytest

from benchmarks.labels import Bench, cases
from kernel.plugins import PluginManager


@pytest.mark.parametrize("scheduler", ["fifo", "fair"])
def test_each_case_is_granted_or_waits_as_it_says(scheduler: str) -> None:
    bench = Bench(PluginManager.discover().choose("scheduler", scheduler)(), 20)
    for what, strategy in cases(20):
        _, is_granted = bench.measure(strategy, 0.0)
        assert is_granted != what.endswith("it waits"), what
