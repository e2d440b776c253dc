"""A node provider between an autoscaler and a real one that fails as clouds do, the same way for the same seed.

    provider = FlakyCloud(MyProvider(configuration), random.Random(seed), clock)

Answers get lost after a call had its effect, calls come too fast, lists are late, there is no capacity for a while, and
an id that was terminated is listed once more. What is wrapped is right; what uses it has to be right in spite of this.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, THROTTLED, UNKNOWN, Interruption, KindDetails, NodeProvider, ProvidedNode


@dataclass(frozen=True, slots=True)
class Troubles:
    """How likely each trouble is in one call, how many seconds lists may be late, and how long capacity is short."""

    throttled: float = 0.05
    answer_lost: float = 0.1
    not_begun: float = 0.05
    no_capacity: float = 0.1
    partly: float = 0.1
    late_list: float = 0.5
    list_seconds: float = 30.0
    capacity_seconds: float = 120.0
    seen_again: float = 0.1


class FlakyCloud:
    """Passes calls on to `provider`, or fails. `dice` decides, `clock` returns seconds."""

    def __init__(
        self,
        provider: NodeProvider,
        dice: random.Random,
        clock: Callable[[], float],
        troubles: Troubles | None = None,
    ) -> None:
        self.name = provider.name
        self._provider: Any = provider
        self._dice = dice
        self._clock = clock
        self._troubles = troubles or Troubles()
        self._lists: deque[tuple[float, Sequence[ProvidedNode]]] = deque(maxlen=100)
        self._short_until: dict[str, float] = {}
        self._ghosts: dict[str, ProvidedNode] = {}
        self.calls = 0
        """How many calls were made, failed ones included."""

    def kinds(self) -> Mapping[str, Mapping[str, float]]:
        """Return the kinds of the provider."""
        kinds: Mapping[str, Mapping[str, float]] = self._provider.kinds()
        return kinds

    def describe(self, kind: str) -> KindDetails:
        """Return what the provider says of a kind."""
        details: KindDetails = self._provider.describe(kind)
        return details

    def events(self) -> Sequence[Interruption]:
        """Return what the provider announces."""
        announced: Sequence[Interruption] = self._provider.events()
        return announced

    def list(self) -> Sequence[ProvidedNode]:
        """Return the list of some time ago, now and then, or with a node that was terminated."""
        self._perhaps_throttle()
        now, troubles = self._clock(), self._troubles
        self._lists.append((now, list(self._provider.list())))
        late = [nodes for at, nodes in self._lists if now - at <= troubles.list_seconds]
        shown = self._dice.choice(late) if self._dice.random() < troubles.late_list else late[-1]
        ghosts = list(self._ghosts.values()) if self._dice.random() < troubles.seen_again else []
        self._ghosts.clear()
        return [*shown, *(ghost for ghost in ghosts if ghost.id not in {node.id for node in shown})]

    def create(self, kind: str, count: int, join: Mapping[str, Any], **more: str) -> Sequence[str]:
        """Make nodes: all, some or none of them; the answer may be lost."""
        self._perhaps_throttle()
        now, dice, troubles = self._clock(), self._dice, self._troubles
        if dice.random() < troubles.no_capacity:
            self._short_until[kind] = now + dice.uniform(0.0, troubles.capacity_seconds)
        if now < self._short_until.get(kind, 0.0):
            raise NodeProviderError(f"there is no capacity for {kind} now", code=CAPACITY)
        if dice.random() < troubles.not_begun:
            raise NodeProviderError("the connection broke before the call was sent", code=UNKNOWN)
        if count > 1 and not more and dice.random() < troubles.partly:
            count = dice.randrange(1, count)
        ids: Sequence[str] = self._provider.create(kind, count, join, **more)
        if dice.random() < troubles.answer_lost:
            raise NodeProviderError("the connection broke before the answer came", code=UNKNOWN)
        return ids

    def terminate(self, ids: Sequence[str]) -> None:
        """Remove nodes; the answer may be lost."""
        self._perhaps_throttle()
        listed = {node.id: node for node in self._provider.list()}
        if self._dice.random() < self._troubles.not_begun:
            raise NodeProviderError("the connection broke before the call was sent", code=UNKNOWN)
        self._provider.terminate(ids)
        self._ghosts |= {id: listed[id] for id in ids if id in listed}
        if self._dice.random() < self._troubles.answer_lost:
            raise NodeProviderError("the connection broke before the answer came", code=UNKNOWN)

    def _perhaps_throttle(self) -> None:
        self.calls += 1
        if self._dice.random() < self._troubles.throttled:
            raise NodeProviderError("calls come too fast", code=THROTTLED, retry_after=2.0)
