"""The contract between a runner and its sampler, for one agent in each environment and for many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.observer import RunnerReport
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.runners.episodes import EpisodeSummary


@dataclass
class Collected:
    """The results of a sampler.

    Attributes:
        fragments: The fragment of each module that made a step, by its id.
        env_steps: The number of steps of the environments.
        agent_steps: The number of steps of agents. With one agent in each environment it is the same.
        report: The report of the callbacks; None where there are none.
    """

    fragments: dict[str, Fragment]
    env_steps: int
    agent_steps: int
    report: RunnerReport | None = None


class LaneSampler(Protocol):
    """Steps copies of an environment, which have numbers among all of the run."""

    lanes: Array
    """These numbers [L]."""
    weights_version: int
    """The version of the parameters that act."""

    @property
    def observer(self) -> Any:
        """The object that calls the callbacks of the runner; None without callbacks."""
        ...

    @property
    def envs(self) -> Any:
        """The environments."""
        ...

    def attach(self, runner: Any) -> None:
        """Show what it calls the runner that it is in."""
        ...

    def collect(self, steps: int) -> Collected:
        """Step each copy this many times; to the end of an episode, where samples are to be of whole ones."""
        ...

    def sample(self, steps: int) -> Any:
        """Step each copy this many times, wherever episodes end; return what happened."""
        ...

    def begin(self, *occasion: int) -> None:
        """Begin new episodes everywhere; for the same occasion they are the same ones each time."""
        ...

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters [size] from now on; they are copied."""
        ...

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        ...

    def take_learned(self) -> dict[str, Moments]:
        """Return what connectors learned of each lane since this was last asked, by their names."""
        ...

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let connectors work with what those of all lanes have learned together, by their names."""
        ...

    def state(self) -> dict[str, Any]:
        """Return all that these copies need to go on elsewhere: `lanes`, by their numbers, and `connectors`."""
        ...

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned, of these copies and perhaps of others."""
        ...

    def close(self) -> None:
        """Let go of the environments."""
        ...
