"""Measure how long it takes from the first need that a cluster can't meet to the provider's call.

The head, its messages and the autoscaler's loop are real; machines never come, so each need is another order.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_autoscaler.core.autoscaler import Autoscaler
from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.settings import Settings
from kernel_autoscaler.shell.demand_follower import DemandFollower
from kernel_autoscaler.shell.loop import Loop
from kernel_autoscaler.shell.process import Session
from kernel_autoscaler.shell.provider_calls import ProviderCalls

import kernel
from kernel_spec.resources import amounts

CPUS = 1000.0
SECONDS = 30.0


class TimedProvider:
    """Notes when it is called; its machines never join."""

    name = "timed"

    def __init__(self) -> None:
        self.called = threading.Event()
        self.called_at = 0.0
        self._made = 0

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the one kind."""
        return {"large": {"CPU": CPUS}}

    def list(self) -> Sequence[Any]:
        """Return nothing."""
        return []

    def create(self, kind: str, count: int, join: Mapping[str, Any]) -> Sequence[str]:
        """Note the time."""
        self.called_at = time.monotonic()
        self.called.set()
        self._made += count
        return [f"t-{self._made - number}" for number in range(count)]

    def terminate(self, ids: Sequence[str]) -> None:
        """Do nothing."""


def measure(needs: int) -> None:
    """Have so many first needs, one after the other at random moments, and print how long each took to be ordered."""
    dice = random.Random(1)

    @kernel.remote
    def large() -> None:
        pass

    with kernel.init(num_cpus=1, log_to_driver=False):
        provider = TimedProvider()
        scaler = Autoscaler([Kind("large", amounts({"CPU": CPUS}), price=1.0)], Settings(), "delays")
        loop = Loop(scaler, Session(), provider.name, time.time)
        loop.calls = ProviderCalls(provider, {}, False, loop.tell, time.time)
        follower = DemandFollower(kernel.wait_for_demand, loop.look)
        running = threading.Thread(target=loop.run, daemon=True)
        running.start()
        follower.start()
        delays = []
        for number in range(needs):
            time.sleep(dice.uniform(0.5, 1.5))
            provider.called.clear()
            begun = time.monotonic()
            large.options(num_cpus=CPUS - number).remote()
            if not provider.called.wait(SECONDS):
                raise TimeoutError(f"nothing was ordered within {SECONDS:.0f} s")
            delays.append(provider.called_at - begun)
        follower.end()
        loop.end()
        running.join()
    delays.sort()
    half, most = statistics.median(delays), delays[-1]
    print(f"first need until its order leaves: half {1000 * half:.0f} ms, worst of {needs} {1000 * most:.0f} ms")
