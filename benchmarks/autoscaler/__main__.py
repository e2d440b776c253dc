"""Measure the autoscaler's decisions, how soon it orders, and run it over a cloud that fails.

    python -m benchmarks.autoscaler [--seeds 100] [--adversity 200] [--needs 30] [--traces 10000] [--deaths 30]

With 0 a part is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import click

from benchmarks.autoscaler import decisions, head_deaths, order_delays
from plugins.autoscaler.tests import adversity, traces


@click.command()
@click.option("--seeds", default=100, show_default=True, help="Purchases of each size.")
@click.option("--adversity", "troubled", default=200, show_default=True, help="Runs over a cloud that fails.")
@click.option("--needs", default=30, show_default=True, help="First needs of an idle cluster, whose delay is measured.")
@click.option("--traces", "traced", default=0, show_default=True, help="Random traces (10,000 take half an hour).")
@click.option("--deaths", default=0, show_default=True, help="Points at which the head of a real cluster is killed.")
def main(seeds: int, troubled: int, needs: int, traced: int, deaths: int) -> None:
    """Print a row for each figure."""
    if seeds:
        for classes, pieces in ((10, 100), (10, 1_000), (30, 10_000)):
            decisions.packing(seeds, classes, pieces)
        decisions.decision(nodes=10_000, pieces=100_000)
    if troubled:
        _many("cloud that fails", adversity.run, troubled)
    if traced:
        _many("random traces", traces.run, traced)
    if deaths:
        head_deaths.measure(deaths)
    if needs:
        order_delays.measure(needs)


def _many(what: str, run: Callable[[int], list[str]], count: int) -> None:
    """Run so many seeds on all cores, and print how many were wrong, and what was."""
    with ProcessPoolExecutor() as pool:
        wrong = {seed: found for seed, found in enumerate(pool.map(run, range(count), chunksize=10)) if found}
    print(f"{what}: {count} seeds, {len(wrong)} wrong {wrong or ''}", flush=True)


if __name__ == "__main__":
    main()
