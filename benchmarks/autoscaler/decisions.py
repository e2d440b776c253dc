"""Measure what the autoscaler's decisions cost: the machines that they buy, and the time that they take.

The bound of a purchase is that of a thousand times as many pieces, a thousandth of it: that hardly needs rounding.
"""

from __future__ import annotations

import statistics
import time

from kernel_autoscaler.core import events
from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.bins import Need
from kernel_autoscaler.core.packing import cheapest
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.core.snapshot import NodeView, Snapshot, WaitingShape

from plugins.autoscaler.tests.test_autoscaler_packing import KINDS, drawn


def packing(seeds: int, classes: int, pieces: int) -> None:
    """Buy for so many pieces of so many sizes, and print what that costs beside the bound."""
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


def decision(nodes: int, pieces: int) -> None:
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
