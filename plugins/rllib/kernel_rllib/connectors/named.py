"""The connectors that users name for `env_to_module_connector`, with the arguments that RLlib's have.

config.env_runners(env_to_module_connector=lambda env: [MeanStdFilter(), FrameStackingEnvToModule(num_frames=4)])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from gymnasium import Space

from kernel_rllib.connectors.env_to_module import ObservationConnector
from kernel_rllib.connectors.frame_stack import FrameStack
from kernel_rllib.connectors.previous_steps import PreviousSteps
from kernel_rllib.connectors.running_normalizer import RunningNormalizer
from kernel_rllib.errors import ConfigError


@dataclass(frozen=True)
class Surroundings:
    """Holds the context that connectors are made for.

    Attributes:
        action_space: The action space of the environment.
        learns: Whether filters learn from what is observed.
        synchronised: Whether filters share what they have learned.
    """

    action_space: Space[Any]
    learns: bool = True
    synchronised: bool = True


class NamedConnector(ABC):
    """A connector whose context is not known yet."""

    @abstractmethod
    def made(self, surroundings: Surroundings) -> ObservationConnector | None:
        """Return the connector; None where nothing is to be done."""


@dataclass(frozen=True)
class MeanStdFilter(NamedConnector):
    """Observations with a mean of 0 and a deviation of 1; see `connectors.running_normalizer`.

    Attributes:
        de_mean_to_zero: Whether the mean is taken off. Only True is there.
        de_std_to_one: Whether the deviation becomes 1. Only True is there.
        clip_by_value: Beyond which value they are cut off; None for nowhere.
        update_stats: Whether statistics follow what is observed.
    """

    de_mean_to_zero: bool = True
    de_std_to_one: bool = True
    clip_by_value: float | None = 10.0
    update_stats: bool = True

    def __post_init__(self) -> None:
        if not (self.de_mean_to_zero and self.de_std_to_one):
            raise ConfigError(
                "MeanStdFilter with de_mean_to_zero=False or de_std_to_one=False is not there: it does both. Leave "
                "them out, or write a connector of your own."
            )

    def made(self, surroundings: Surroundings) -> ObservationConnector:
        """Return the filter."""
        return RunningNormalizer(
            learns=surroundings.learns and self.update_stats,
            synchronised=surroundings.synchronised,
            clip=self.clip_by_value,
        )


@dataclass(frozen=True)
class FrameStackingEnvToModule(NamedConnector):
    """The last observations as one; see `connectors.frame_stack`. `num_frames` says how many."""

    num_frames: int = 1

    def made(self, surroundings: Surroundings) -> ObservationConnector:
        """Return the stack."""
        return FrameStack(self.num_frames)


@dataclass(frozen=True)
class PrevActionsPrevRewards(NamedConnector):
    """The last actions and rewards beside observations; see `connectors.previous_steps`."""

    n_prev_actions: int = 1
    n_prev_rewards: int = 1

    def made(self, surroundings: Surroundings) -> ObservationConnector:
        """Return what appends them."""
        return PreviousSteps(surroundings.action_space, actions=self.n_prev_actions, rewards=self.n_prev_rewards)


@dataclass(frozen=True)
class FlattenObservations(NamedConnector):
    """Flattens nested observations. It does nothing itself: the preprocessor of the space makes flat rows."""

    def made(self, surroundings: Surroundings) -> None:
        """Return None."""
