"""Measure the autoscaler's decisions, how soon it orders, and run it over a cloud that fails.

    python -m benchmarks.autoscaler [--seeds 100] [--adversity 200] [--needs 30]

With 0 a part is left out.
"""

from __future__ import annotations

import click

from benchmarks.autoscaler import decisions, order_delays
from plugins.autoscaler.tests import adversity


@click.command()
@click.option("--seeds", default=100, show_default=True, help="Purchases of each size.")
@click.option("--adversity", "troubled", default=200, show_default=True, help="Runs over a cloud that fails.")
@click.option("--needs", default=30, show_default=True, help="First needs of an idle cluster, whose delay is measured.")
def main(seeds: int, troubled: int, needs: int) -> None:
    """Print a row for each figure."""
    if seeds:
        for classes, pieces in ((10, 100), (10, 1_000), (30, 10_000)):
            decisions.packing(seeds, classes, pieces)
        decisions.decision(nodes=10_000, pieces=100_000)
    if troubled:
        wrong = {seed: found for seed in range(troubled) if (found := adversity.run(seed))}
        print(f"cloud that fails: {troubled} seeds, {len(wrong)} wrong {wrong or ''}")
    if needs:
        order_delays.measure(needs)


if __name__ == "__main__":
    main()
