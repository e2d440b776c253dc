"""The parts by which a policy acts in any runner: its module, its exploration, and its connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.env_to_module import EnvToModule, ObservationConnector
from kernel_rllib.connectors.module_to_env import ActionConnector, ModuleToEnv
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.exploration.exploration import Exploration, PerRunner
from kernel_rllib.modules.module import Module
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.spaces.action_rows import actions_of, rows_of
from kernel_rllib.spaces.nested import Struct
from kernel_rllib.spaces.squash import ActionScaler


@dataclass(frozen=True)
class ActionSettings:
    """The processing of chosen actions before environments get them.

    Attributes:
        unsquash: Whether they are from -1 to 1, and stretched to the bounds of the space.
        clip: Whether they are cut off at these bounds.
    """

    unsquash: bool = True
    clip: bool = False


def no_connectors(learns: bool) -> Sequence[ObservationConnector]:
    """Return no connectors."""
    return ()


@dataclass(frozen=True, kw_only=True)
class PolicyBlueprint:
    """Holds the parts by which a policy acts, in any runner.

    Attributes:
        observation_space: The observation space.
        action_space: The action space.
        module: The module that acts.
        exploration: The exploration by which actions are chosen.
        actions: The processing of its choices.
        observation_connectors: Makes the connectors that rows of observations pass through; called with whether their
            filters learn.
        learns: Whether they do in runners.
        clip_rewards: Gives the rewards [L] that are learned from for those of the environment; None: the same.
        preprocessor: The preprocessor that shrinks pictures, or None.
        model_options: The options that give their size.
        told: The numbers in infos that are columns of what one agent of each environment does.
    """

    observation_space: Space[Any]
    action_space: Space[Any]
    module: Module
    exploration: Exploration
    actions: ActionSettings = field(default_factory=ActionSettings)
    observation_connectors: Callable[[bool], Sequence[ObservationConnector]] = no_connectors
    learns: bool = True
    clip_rewards: Callable[[Array], Array] | None = None
    preprocessor: str | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    told: tuple[str, ...] = ()

    def exploration_of(self, place: RunnerPlace) -> Exploration:
        """Return how the runner of a place explores."""
        if isinstance(self.exploration, PerRunner):
            return self.exploration.of_runner(place.index, place.runners)
        return self.exploration

    def make_env_to_module(self, *, learns: bool | None = None) -> EnvToModule:
        """Return the connectors from observations to inputs; `learns`, if given, says whether filters learn."""
        preprocessor = preprocessor_of(self.observation_space, self.preprocessor, self.model_options)
        return EnvToModule(preprocessor, self.observation_connectors(self.learns if learns is None else learns))

    def make_module_to_env(self) -> ModuleToEnv:
        """Return the connectors from choices to actions."""
        connectors: list[ActionConnector] = [partial(actions_of, self.action_space)]
        scaler = ActionScaler(self.action_space)
        if self.actions.unsquash:
            connectors.append(scaler.unsquash)
        if self.actions.clip:
            connectors.append(scaler.clip)
        return ModuleToEnv(connectors)

    def choices_of(self, actions: Struct) -> Array:
        """Return the choices [N, ...] of which `make_module_to_env` makes these actions [N, ...]."""
        if self.actions.unsquash:
            actions = ActionScaler(self.action_space).normalise(actions)
        return rows_of(self.action_space, actions)
