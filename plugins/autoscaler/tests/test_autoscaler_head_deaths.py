"""The head dies while a machine starts; `python -m benchmarks.autoscaler --deaths 30` kills it at many points."""

from __future__ import annotations

from plugins.autoscaler.tests.head_deaths import mortal_cluster


def test_the_next_head_goes_on_with_the_machines_that_were_ordered() -> None:
    with mortal_cluster() as cluster:
        assert cluster.run(0.5) == []
