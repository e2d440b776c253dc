"""The autoscaler over a cloud that fails: nothing leaked, nothing double, all served, nothing busy ended."""

from __future__ import annotations

import pytest

from plugins.autoscaler.tests import adversity


@pytest.mark.parametrize("seed", range(6))
def test_a_cloud_that_fails_costs_time_and_nothing_else(seed: int) -> None:
    assert adversity.run(seed) == []
