"""A runner in an actor as its group sees it: its lanes, its handle, and the samples that it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeAlias

import kernel
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.errors import RunnersLostError
from kernel_rllib.runners.construction import Construction
from kernel_rllib.runners.place import RunnerPlace
from kernel_spec.errors import FaultError

Weights: TypeAlias = "tuple[kernel.ObjectRef, int]"
"""Parameters in the object store, and their version."""


@dataclass(frozen=True)
class Request:
    """Holds a request for a sample, with all that another runner needs for the same one.

    Attributes:
        steps: The number of steps of each lane.
        weights: The parameters to act with; None for those that the runner has.
        statistics: The statistics for the connectors.
        sample: The sample, once it is there.
        snapshot: The state of the lanes after it; of None where that was not asked for.
    """

    steps: int
    weights: Weights | None
    statistics: Statistics
    sample: kernel.ObjectRef
    snapshot: kernel.ObjectRef


@dataclass
class RemoteRunner:
    """A runner in an actor.

    Attributes:
        place: The lanes that it steps.
        handle: The actor.
        construction: The position of its constructor, until that has returned.
        snapshot: The state before its oldest request; None for that in which any runner of its place begins.
        steps: The number of steps of each of its lanes after all requests.
        version: The version of its parameters by then.
        requests: The requests that it has not answered yet, the oldest first.
        is_made: Whether it is known that its constructor has returned.
        began: The time at which that was called, in seconds of a monotonic clock.
        awaited: The reference that is waited for now, and the time since when, in seconds of the same clock.
    """

    place: RunnerPlace
    handle: kernel.ActorHandle
    construction: Construction
    snapshot: kernel.ObjectRef | None = None
    steps: int = 0
    version: int = -1
    requests: list[Request] = field(default_factory=list)
    is_made: bool = False
    began: float = field(default_factory=monotonic)
    awaited: tuple[kernel.ObjectRef, float] | None = None

    def ask(self, steps: int, weights: Weights | None, statistics: Statistics, *, with_snapshot: bool) -> None:
        """Let it begin one more sample after those that it was asked for; see `Request`."""
        vector, version = (None, -1) if weights is None or weights[1] == self.version else weights
        sample, snapshot = self.handle.sample.options(num_returns=2).remote(
            steps, vector, version, statistics, with_snapshot
        )
        if weights is not None:
            self.version = weights[1]
        self.steps += steps
        self.requests.append(Request(steps, weights, statistics, sample, snapshot))

    def end(self) -> None:
        """End the actor, whatever it does."""
        kernel.kill(self.handle)
        if not self.is_made:
            self.construction.forget()

    def samples(self) -> list[kernel.ObjectRef]:
        """Return the samples that it was asked for."""
        return [request.sample for request in self.requests]

    def awaited_since(self, ref: kernel.ObjectRef, now: float) -> float:
        """Return since when this is waited for: from now on, where it was something else before."""
        if self.awaited is None or self.awaited[0] != ref:
            self.awaited = ref, now
        return self.awaited[1]

    def steps_brought(self) -> int:
        """Return how many steps each of its lanes has made in the samples that it has brought."""
        return self.steps - sum(request.steps for request in self.requests)

    def beginning(self) -> kernel.ObjectRef | None:
        """Return `snapshot`, in which a runner that takes its place begins. Raises RunnersLostError if it is lost."""
        if self.snapshot is not None:
            try:
                kernel.get(self.snapshot)
            except FaultError as error:
                raise RunnersLostError(
                    f"runner {self.place.index} died before it had told the state in which `recovery='exact'` lets "
                    f"another one begin: {error}. Go on from the last checkpoint; with `recovery='recreate'` "
                    "environments would begin anew."
                ) from error
        return self.snapshot


def take_as_heard(refs: Sequence[kernel.ObjectRef]) -> None:
    """Don't log failures of these calls, past or future: they are known, or are reported otherwise."""
    for ref in refs:
        ref.future()
