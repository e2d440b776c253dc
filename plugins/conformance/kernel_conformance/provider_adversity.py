"""A caller of a node provider that does what the contract allows, while the cloud and the head fail.

    problems = adversity(lambda clock: MyProvider(configuration, clock), lambda: ids_of_my_fake_cloud(), seed=1)

It orders machines and ends them as demand comes and goes, through `FlakyCloud`, in virtual time. It repeats what may
or may not have happened, and now and then makes the provider anew, as after the death of a head. What is wrong then is
the provider's fault: machines made twice for one token, forgotten, or still there after all were ended.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any

from kernel_conformance.flaky_cloud import FlakyCloud
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, QUOTA, UNKNOWN, NodeProvider, ProvidedNode, takes_token

STEP_SECONDS = 5.0
GONE_SECONDS = 40.0
"""Seconds for which lists must be without a machine until it counts as gone: they lag."""
_JOIN = {"address": "10.0.0.1:6380", "token": "the cluster's token"}


@dataclass(slots=True)
class PlacedOrder:
    """Machines that were asked for. `doubtful`: the outcome of a call is not known, so the call has to be repeated."""

    token: str
    kind: str
    count: int
    doubtful: bool = False


class CarefulCaller:
    """Calls a provider through a cloud that fails. `make` returns the provider, anew after each death."""

    def __init__(self, make: Callable[[Callable[[], float]], NodeProvider], dice: random.Random) -> None:
        self.now = 0.0
        self._make = make
        self._dice = dice
        self._seed = dice.randrange(2**32)
        self.orders: list[PlacedOrder] = []
        self.machines: dict[str, str] = {}
        """Machines that are wanted, with their kinds."""
        self.ending: dict[str, float | None] = {}
        """Machines that are ended until they are gone, and since when lists are without them."""
        self._strangers: dict[str, int] = {}
        self._numbered = 0
        self.problems: list[str] = []
        self.restart()

    def restart(self) -> None:
        """The head died, and with it all that the provider kept in memory."""
        self._seed += 1
        provider = self._make(lambda: self.now)
        self._kinds = tuple(provider.kinds())
        if not takes_token(provider):
            raise TypeError(f"create of the node provider {provider.name!r} takes no token: nothing can be repeated")
        self._cloud = FlakyCloud(provider, random.Random(self._seed), lambda: self.now)

    def unexplained(self, living: Collection[str]) -> int:
        """Return how many machines there are in truth beyond those that are known or may come of orders."""
        strange = [id for id in living if id not in self.machines and id not in self.ending]
        return len(strange) - sum(one.count for one in self.orders)

    def step(self, wanted: int) -> None:
        """Order or end machines until `wanted` of each kind are there, and look at the list."""
        self.now += STEP_SECONDS
        for kind in self._kinds:
            there = [id for id, known in self.machines.items() if known == kind]
            coming = sum(one.count for one in self.orders if one.kind == kind)
            if len(there) + coming < wanted:
                self._numbered += 1
                self.orders.append(PlacedOrder(f"order-{self._numbered}", kind, wanted - len(there) - coming))
            for id in there[wanted:]:
                del self.machines[id]
                self.ending[id] = None
        for order in list(self.orders):
            self._place(order)
        if self.ending:
            self._try(lambda: self._cloud.terminate(sorted(self.ending)))
        listed = self._try(self._cloud.list)
        if listed is not None:
            self._compare(listed)

    def _place(self, order: PlacedOrder) -> None:
        try:
            ids = self._cloud.create(order.kind, order.count, _JOIN, token=order.token)
        except NodeProviderError as error:
            if error.code in (CAPACITY, QUOTA) and not order.doubtful:
                self.orders.remove(order)
            order.doubtful = order.doubtful or error.code == UNKNOWN
            return
        if len(set(ids)) > order.count:
            self.problems.append(f"{order.token} asked for {order.count} machines, and got {sorted(ids)}")
        self.orders.remove(order)
        self.machines |= dict.fromkeys(ids, order.kind)

    def _compare(self, listed: Collection[ProvidedNode]) -> None:
        there = {one.id: one for one in listed}
        for id, since in list(self.ending.items()):
            if id in there:
                self.ending[id] = None
            elif since is None:
                self.ending[id] = self.now
            elif self.now - since > GONE_SECONDS:
                del self.ending[id]
        strange = [id for id in there if id not in self.machines and id not in self.ending]
        waiting = {one.kind for one in self.orders}
        seen = {id: self._strangers.get(id, 0) + 1 for id in strange if there[id].kind not in waiting}
        self._strangers = seen
        self.ending |= {id: None for id, times in seen.items() if times >= 2 and there[id].state != "stopping"}

    def _try(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except NodeProviderError:
            return None


def adversity(
    make: Callable[[Callable[[], float]], NodeProvider],
    living: Callable[[], Collection[str]],
    seed: int,
    steps: int = 25,
) -> list[str]:
    """Return what is wrong with a provider: nothing, if it is right.

    `make` takes a clock (seconds) and returns the provider over one fake cloud; `living` returns the ids of the
    machines that there are in truth.
    """
    dice = random.Random(seed)
    caller = CarefulCaller(make, dice)
    wanted = 0
    for _ in range(steps):
        if dice.random() < 0.3:
            wanted = dice.randrange(4)
        if dice.random() < 0.1:
            caller.restart()
        caller.step(wanted)
        more = caller.unexplained(living())
        if more > 0:
            caller.problems.append(f"{more} more machines are there than were asked for")
            break
    for _ in range(300):
        if not living() and not caller.orders and not caller.ending:
            break
        caller.step(0)
    left = sorted(living())
    return [*caller.problems, *([f"{left} are left after all were ended"] if left else [])]
