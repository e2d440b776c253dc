"""A shard of replay in an actor, as the process of the learner sees it: its handle, and what is on its way there."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.nn import philox
from kernel_rllib.replay.shard import MakeReplay, ReplayShard
from kernel_rllib.runners.env_runner import Sample


class ShardActor:
    """A `ReplayShard` that is called from elsewhere. Samples come by the object store, from where runners put them."""

    def __init__(self, seed: int, index: int, incarnation: int, replays: Mapping[str, MakeReplay]) -> None:
        """Hold nothing yet.

        Args:
            seed: The seed of the run.
            index: The number of the shard.
            incarnation: The number of shards that died before it in its place.
            replays: The function that makes the buffer of each policy, by policy id.
        """
        self._shard = ReplayShard(philox.stream(seed, "replay_shard", index, incarnation))
        for policy_id, make in replays.items():
            self._shard.open(policy_id, make)

    def process(self) -> int:
        """Return the id of its process."""
        return os.getpid()

    def open(self, policy_id: str, make: MakeReplay) -> None:
        """Keep the rows of another policy."""
        self._shard.open(policy_id, make)

    def add(self, sample: Sample) -> dict[str, int]:
        """Keep what a runner made of a sample; return how many rows there are then, by policy."""
        return self._shard.add(sample.made)

    def sample(self, policy_id: str, count: int, timestep: int) -> Batch:
        """Return rows of a policy."""
        return self._shard.sample(policy_id, count, timestep)

    def update_priorities(self, policy_id: str, places: Array, errors: Array) -> None:
        """Say how large the errors of rows were."""
        self._shard.update_priorities(policy_id, places, errors)

    def state(self, policy_id: str) -> Mapping[str, Any]:
        """Return all that there is of a policy."""
        return self._shard.state(policy_id)

    def set_state(self, policy_id: str, state: Mapping[str, Any]) -> int:
        """Go on with what `state` returned; return how many rows that are."""
        return self._shard.set_state(policy_id, state)


@dataclass
class Addition:
    """Holds a sample that was sent to a shard, and its answer: the number of rows after it, by policy."""

    sample: Any
    answer: kernel.ObjectRef


@dataclass
class RemoteShard:
    """A shard in an actor.

    Attributes:
        index: Its number, from 0.
        handle: The actor.
        incarnation: The number of shards that died before it in its place.
        rows: The number of rows of each policy that it is known to hold.
        adding: Samples that it has not said to have kept yet, the oldest first.
        drawing: Minibatches that it was asked for and that were not taken yet, by policy.
        draws: The number of minibatches that were taken.
    """

    index: int
    handle: kernel.ActorHandle
    incarnation: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    adding: deque[Addition] = field(default_factory=deque)
    drawing: dict[str, kernel.ObjectRef] = field(default_factory=dict)
    draws: int = 0

    def add(self, sample: Any) -> None:
        """Send a sample, or what refers to one in the object store."""
        self.adding.append(Addition(sample, self.handle.add.remote(sample)))

    def ask(self, policy_id: str, count: int, timestep: int) -> None:
        """Let it draw a minibatch of a policy, unless it was asked for one already."""
        if policy_id not in self.drawing:
            self.drawing[policy_id] = self.handle.sample.remote(policy_id, count, timestep)

    def pending(self) -> list[kernel.ObjectRef]:
        """Return all requests whose results were not taken yet."""
        return [*(each.answer for each in self.adding), *self.drawing.values()]


def start_shard(seed: int, index: int, incarnation: int, replays: Mapping[str, MakeReplay]) -> RemoteShard:
    """Start a shard in an actor that reserves nothing, and return it at once."""
    actor = kernel.remote(num_cpus=0)(ShardActor)
    return RemoteShard(index, actor.remote(seed, index, incarnation, dict(replays)), incarnation)
