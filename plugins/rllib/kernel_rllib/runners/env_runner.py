"""A runner: the sampler of one process, and what the rest of a run asks of it. It runs here, or in an actor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

import kernel
from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.observer import RunnerReport
from kernel_rllib.connectors.moments import Moments, Statistics
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.runners.contract import LaneSampler
from kernel_rllib.runners.episodes import EpisodeSummary


@dataclass
class Sample:
    """The result of one call of `sample`: fragments by module, and the reports of the steps in them.

    Attributes:
        fragments: The fragment of each module, by its id.
        episodes: The episodes that ended.
        env_steps: The number of steps of the environments.
        agent_steps: The number of steps of agents. With one agent in each environment it is the same.
        seconds: The duration of the call.
        runner: The number of the runner that sampled.
        report: The report of the callbacks; None where there are none.
        learned: The statistics that connectors collected meanwhile in each of its lanes, by their names.
        made: The result of the runner's work on the fragments, if it has any.
        ref: The reference to all of it in the object store; None where the runner is in this process.
    """

    fragments: dict[str, Fragment]
    episodes: list[EpisodeSummary] = field(default_factory=list)
    env_steps: int = 0
    agent_steps: int = 0
    seconds: float = 0.0
    runner: int = 0
    report: RunnerReport | None = None
    learned: dict[str, Moments] = field(default_factory=dict)
    made: Any = None
    ref: kernel.ObjectRef | None = None


MOST_METRICS = 10_000
"""So many episodes are kept of samples by hand; of more the last ones."""

Work: TypeAlias = "Callable[[EnvRunner, Sample], Sample]"
"""Makes something of a sample where it was sampled, and returns what is sent in its place."""


class EnvRunner:
    """Samples experience: it steps lanes of environments with the modules that act in them."""

    def __init__(
        self,
        make_sampler: Callable[[], LaneSampler],
        *,
        index: int = 0,
        clock: Callable[[], float] = perf_counter,
        work: Work | None = None,
    ) -> None:
        """Make the sampler.

        Args:
            make_sampler: Makes it, environments and all; called here, in the process where it runs.
            index: The number of this runner: 0 beside the learner, from 1 elsewhere.
            clock: Tells seconds.
            work: Turns each sample into what is sent in its place, given this runner; None to send samples.
        """
        self.index, self.work = index, work
        self.metrics: deque[Any] = deque(maxlen=MOST_METRICS)
        """The metrics of episodes from direct calls of `sample`, until they are taken."""
        self.sampler = make_sampler()
        self.sampler.attach(self)
        self._clock = clock

    def sample(
        self, steps: int, weights: tuple[Array, int] | None = None, statistics: Statistics | None = None
    ) -> Sample:
        """Step each lane this many times; to the end of an episode, where the sampler is to sample whole ones.

        Args:
            steps: The number of steps of each lane.
            weights: The parameters to act with, and their version; None if they have not changed.
            statistics: The statistics of connectors; None if they have not changed.
        """
        began = self._clock()
        if weights is not None:
            self.set_weights(*weights)
        if statistics:
            self.set_statistics(statistics)
        sampler = self.sampler
        collected = sampler.collect(steps)
        sample = Sample(
            fragments=collected.fragments,
            episodes=sampler.take_episodes(),
            env_steps=collected.env_steps,
            agent_steps=collected.agent_steps,
            report=collected.report,
            seconds=self._clock() - began,
            runner=self.index,
            learned=sampler.take_learned(),
        )
        return sample if self.work is None else self.work(self, sample)

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters from now on."""
        self.sampler.set_weights(vector, version)

    def set_statistics(self, statistics: Statistics) -> None:
        """Let connectors work with these statistics from now on."""
        self.sampler.set_statistics(statistics)

    def apply(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what the function returns for this runner."""
        return function(self, *arguments, **named)

    def state(self) -> Mapping[str, Any]:
        """Return all that its lanes need to go on elsewhere."""
        return self.sampler.state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        self.sampler.set_state(state)
