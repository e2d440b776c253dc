"""Random traces over a cloud that works: nothing is bought beyond the demand, ended while busy, or bought back."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_autoscaler.core.bins import fits, take
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.core.snapshot import ALIVE
from kernel_autoscaler.simulated.cloud import SimulatedCloud
from kernel_autoscaler.simulated.cluster import SimulatedWork
from kernel_autoscaler.simulated.run import SimulatedRun

from kernel_spec.resources import Amounts, amounts
from plugins.autoscaler.tests.adversity import KINDS

SECONDS = 1500.0


class WatchedCloud(SimulatedCloud):
    """Notes the orders that the waiting work does not explain, by a packing of its own."""

    def __init__(self, clock: Callable[[], float], dice: random.Random) -> None:
        super().__init__(KINDS, clock, dice)
        self.beyond: list[str] = []
        self.run: SimulatedRun

    def create(self, kind: str, count: int, join: Mapping[str, Any], token: str = "") -> Sequence[str]:
        """Make machines, after a look at what they are for."""
        left = max(self._left(groups_first=True), self._left(groups_first=False))
        if count > left:
            self.beyond.append(f"at {self._clock():.2f} s {count} x {kind} for {left} pieces")
        return super().create(kind, count, join, token)

    def _left(self, groups_first: bool) -> int:
        """Return how many waiting pieces have no place on what is there or coming, the largest placed first.

        A group has to fit at once: either all of it needs machines of its own, or it takes the place of others first.
        """
        cluster = self.run.cluster
        joined = {node.machine for node in cluster.nodes.values()}
        free = [dict(node.free) for node in cluster.nodes.values() if node.state == ALIVE]
        free += [dict(self._kinds[one.kind].resources) for one in self.living() if self._comes(one.id, joined)]
        left = 0
        largest_first = sorted(cluster.waiting, key=lambda work: -max(work.wanted.values(), default=0))
        for work in sorted(largest_first, key=lambda work: work.group is None):
            missing = work.count
            if work.group is None or groups_first:
                missing -= sum(_put(bin, work.wanted, missing) for bin in free)
            left += max(0, missing)
        return left

    def _comes(self, id: str, joined: set[str]) -> bool:
        return id not in joined and self.machines[id].ended_at is None


def _put(free: Amounts, wanted: Mapping[str, int], most: int) -> int:
    pieces = fits(free, wanted, max(0, most))
    take(free, wanted, pieces)
    return pieces


def drawn(dice: random.Random) -> list[SimulatedWork]:
    """Return work that comes within minutes: bursts, trickles, single pieces, groups."""
    found = []
    for number in range(dice.randrange(1, 8)):
        wanted = amounts(dice.choice([{"CPU": 1}, {"CPU": 2}, {"CPU": 6}, {"GPU": 1}, {"CPU": 0.5}, {"CPU": 3}]))
        at, seconds = dice.uniform(0, 500), dice.choice([0.5, 5.0, 40.0, 200.0])
        group = (f"group-{number}", dice.choice(["PACK", "STRICT_SPREAD"])) if dice.random() < 0.15 else None
        if group is None and dice.random() < 0.2:
            found += [SimulatedWork(at + 3.0 * step, wanted, seconds) for step in range(dice.randrange(2, 20))]
        else:
            found.append(
                SimulatedWork(
                    at, wanted, seconds, dice.choice([1, 2, 4]) if group else dice.choice([1, 3, 20, 90]), group=group
                )
            )
    return found


def run(seed: int) -> list[str]:
    """Run one trace, and return what is wrong: nothing, if the autoscaler is right."""
    dice = random.Random(f"trace {seed}")
    work = drawn(dice)
    total = sum(one.count for one in work)
    clouds: list[WatchedCloud] = []

    def make(clock: Callable[[], float]) -> SimulatedCloud:
        clouds.append(WatchedCloud(clock, random.Random(seed)))
        return clouds[0]

    settings = Settings(idle_seconds=dice.choice([10.0, 60.0, 200.0]), repeats=dice.random() < 0.5)
    trial = SimulatedRun(KINDS, settings, make, work, fixed=[amounts({"CPU": dice.choice([0, 2])})])
    clouds[0].run = trial
    outcome = trial.until(SECONDS)
    found = {
        f"{clouds[0].beyond} was beyond the demand": bool(clouds[0].beyond),
        f"{total - outcome.served} pieces were not served": outcome.served != total,
        f"{outcome.busy_ended} machines were ended while something ran there": outcome.busy_ended > 0,
        f"{outcome.flaps} machines were made soon after one of their kind was given back": outcome.flaps > 0,
        "machines were left when nothing was needed": bool(clouds[0].living()),
    }
    return [text for text, wrong in found.items() if wrong]
