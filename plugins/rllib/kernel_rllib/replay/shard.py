"""One part of a replay that is spread over several processes: a buffer for each policy, and where draws of it are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data.batch import Batch
from kernel_rllib.replay.replay import Replay

MakeReplay: TypeAlias = Callable[[], Replay]


@dataclass
class Experience:
    """The experience that a runner made from the steps of one policy.

    Attributes:
        rows: Transitions.
        errors: Their errors by the parameters that acted [N]; None where these were not computed.
        version: The version of the parameters that acted.
    """

    rows: Batch
    errors: Array | None = None
    version: int = 0

    def batch(self) -> Batch:
        """Return the transitions, as `policies_to_train` is shown them."""
        return self.rows


class ReplayShard:
    """Keeps a part of what is sampled, and draws from it alone."""

    def __init__(self, stream: np.random.Generator) -> None:
        """Hold nothing yet, and draw by this stream."""
        self._stream = stream
        self._replays: dict[str, Replay] = {}

    def open(self, policy_id: str, make: MakeReplay) -> None:
        """Keep the rows of this policy from now on, in the buffer that `make` returns."""
        self._replays[policy_id] = make()

    def add(self, made: Mapping[str, Experience]) -> dict[str, int]:
        """Keep rows, by policy; return how many this holds then of each. Those of policies it was not told of go."""
        for policy_id, found in made.items():
            if policy_id in self._replays and found.rows.count:
                self._replays[policy_id].add(found.rows, found.errors)
        return {policy_id: len(replay) for policy_id, replay in self._replays.items()}

    def sample(self, policy_id: str, count: int, timestep: int) -> Batch:
        """Return `count` rows of a policy; schedules go by `timestep`."""
        return self._replays[policy_id].sample(count, self._stream, timestep)

    def update_priorities(self, policy_id: str, places: Array, errors: Array) -> None:
        """Say how large the errors of rows were, by their `batch_indexes`."""
        self._replays[policy_id].update_priorities(places, errors)

    def state(self, policy_id: str) -> Mapping[str, Any]:
        """Return all that it holds of a policy, as arrays."""
        return self._replays[policy_id].state()

    def set_state(self, policy_id: str, state: Mapping[str, Any]) -> int:
        """Go on with what `state` returned of a policy; return how many rows that are."""
        self._replays[policy_id].set_state(state)
        return len(self._replays[policy_id])
