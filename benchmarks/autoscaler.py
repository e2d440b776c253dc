"""Measure the autoscaler's decisions, and run them over a cloud that fails.

    python -m benchmarks.autoscaler [--seeds 100] [--adversity 200]

The bound of a purchase is that of a thousand times as many pieces, a thousandth of it: that hardly needs rounding.
"""

from __future__ import annotations

import statistics
import time

import click
from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.bins import Need
from kernel_autoscaler.core.kinds import Settings
from kernel_autoscaler.core.packing import cheapest
from kernel_autoscaler.core.snapshot import NodeView, Snapshot, WaitingShape

from plugins.autoscaler.tests import adversity
from plugins.autoscaler.tests.test_autoscaler_packing import KINDS, drawn


@click.command()
@click.option("--seeds", default=100, show_default=True, help="Purchases of each size.")
@click.option("--adversity", "troubled", default=200, show_default=True, help="Runs over a cloud that fails.")
def main(seeds: int, troubled: int) -> None:
    """Print a row for each figure."""
    for classes, pieces in ((10, 100), (10, 1_000), (30, 10_000)):
        _packing(seeds, classes, pieces)
    _decision(nodes=10_000, pieces=100_000)
    wrong = {seed: found for seed in range(troubled) if (found := adversity.run(seed))}
    print(f"cloud that fails: {troubled} seeds, {len(wrong)} wrong {wrong or ''}")


def _packing(seeds: int, classes: int, pieces: int) -> None:
    ratios, seconds = [], []
    for seed in range(seeds):
        needs = drawn(seed, classes, pieces)
        begun = time.process_time()
        cost = cheapest(needs, KINDS).cost
        seconds.append(time.process_time() - begun)
        many = cheapest([Need(need.wanted, need.count * 1000) for need in needs], KINDS).cost / 1000
        ratios.append(cost / many)
    print(
        f"packing {pieces} pieces of {classes} sizes: {statistics.mean(ratios):.4f} of the bound, "
        f"worst {max(ratios):.4f}, {1000 * max(seconds):.1f} ms at most"
    )


def _decision(nodes: int, pieces: int) -> None:
    """Time one decision with so many busy nodes and so many requests of 30 sizes, and one with nothing to do."""
    busy = [
        NodeView(f"n{number}", KINDS[2].resources, {}, f"m{number}", labels={"kernel/node-id": f"n{number}"})
        for number in range(nodes)
    ]
    shapes = [WaitingShape(need.wanted, requests=need.count) for need in drawn(1, 30, pieces)]
    for what, waiting in (("decision", shapes), ("quiet look", [])):
        times = []
        for _ in range(20):
            scaler = Autoscaler(KINDS, Settings(burst_seconds=0.0), "benchmark")
            order = scaler.machines.order(KINDS[2].name, nodes, "benchmark", 0.0)
            scaler.handle(events.Created(order.token, [f"m{number}" for number in range(nodes)]), 0.0)
            scaler.handle(events.Observed(Snapshot(nodes=busy)), 1.0)
            begun = time.process_time()
            scaler.handle(events.Observed(Snapshot(waiting, nodes=busy)), 2.0)
            times.append(time.process_time() - begun)
        worst, half = max(times), statistics.median(times)
        print(f"{what} with {nodes} nodes: half {1000 * half:.0f} ms, worst {1000 * worst:.0f} ms of CPU")


if __name__ == "__main__":
    main()
