"""Runs of an autoscaler over a cloud that fails, and whose head dies between its journal and its calls."""

from __future__ import annotations

import random
from collections.abc import Callable

from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.simulated.cloud import SimulatedCloud
from kernel_autoscaler.simulated.cluster import SimulatedWork
from kernel_autoscaler.simulated.run import SimulatedRun

from kernel.conformance.flaky_cloud import FlakyCloud
from kernel_spec.resources import amounts

KINDS = [
    Kind("small", amounts({"CPU": 2}), price=0.1, boot_seconds=40.0),
    Kind("large", amounts({"CPU": 8}), price=0.36, boot_seconds=60.0),
    Kind("gpu", amounts({"CPU": 4, "GPU": 1}), price=1.0, boot_seconds=90.0),
]
SECONDS = 6000.0


def drawn_work(dice: random.Random) -> list[SimulatedWork]:
    """Return work of all sizes, some of it in placement groups."""
    found = []
    for number in range(dice.randrange(3, 12)):
        wanted = amounts(dice.choice([{"CPU": 1}, {"CPU": 2}, {"CPU": 6}, {"GPU": 1}, {"CPU": 0.5}]))
        group = (f"group-{number}", dice.choice(["PACK", "STRICT_SPREAD"])) if dice.random() < 0.2 else None
        count = dice.choice([1, 3, 10, 60])
        seconds = dice.choice([1.0, 10.0, 60.0, 300.0])
        found.append(
            SimulatedWork(dice.uniform(0, 1500), wanted, seconds, min(count, 5) if group else count, group=group)
        )
    return found


def run(seed: int) -> list[str]:
    """Run one seed, end the cluster, and return what is wrong: nothing, if the autoscaler is right."""
    dice = random.Random(seed)
    work = drawn_work(dice)
    total = sum(one.count for one in work)
    settings = Settings(idle_seconds=60.0, repeats=dice.random() < 0.5, join_seconds=120.0)
    clocks: list[Callable[[], float]] = []

    def make(clock: Callable[[], float]) -> SimulatedCloud:
        clocks.append(clock)
        return SimulatedCloud(KINDS, clock, random.Random(seed))

    trial = SimulatedRun(
        KINDS,
        settings,
        make,
        work,
        wrap=lambda cloud: FlakyCloud(cloud, random.Random(seed + 1000), clocks[0]),
        never_joins=lambda id: random.Random(f"{id} of {seed}").random() < 0.1,
        dies=lambda step: dice.random() < 0.03,
    )
    outcome = trial.until(SECONDS)
    left = len(trial.cloud.living())
    trial.stop(900.0)
    leaked = [one.id for one in trial.cloud.machines.values() if one.ended_at is None]
    found = {
        f"{total - outcome.served} pieces were not served": outcome.served != total,
        f"{outcome.cut_off} pieces were cut off": outcome.cut_off > 0,
        f"{left} machines were left when nothing was needed": left > 0,
        f"{leaked} were left at the end": bool(leaked),
        f"{outcome.busy_ended} machines were ended while something ran there": outcome.busy_ended > 0,
        f"{outcome.flaps} machines were made soon after one of their kind was given back": outcome.flaps > 0,
        "the autoscaler does not know that the cluster has ended": not trial.autoscaler.is_finished,
    }
    return [text for text, wrong in found.items() if wrong]
