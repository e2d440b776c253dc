"""A few random traces; `python -m benchmarks.autoscaler --traces 10000` runs many."""

from __future__ import annotations

import pytest

from plugins.autoscaler.tests import traces


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_bought_beyond_the_demand_nor_ended_while_busy_nor_bought_back(seed: int) -> None:
    assert traces.run(seed) == []
