"""Lanes of a policy that does not learn: an object of the user's, which is asked for actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.errors import ConfigError
from kernel_rllib.nn import philox
from kernel_rllib.runners.agent_slots import AgentSlots
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Struct


@dataclass(frozen=True)
class ScriptedBlueprint:
    """Makes a policy of the user's own class in each runner.

    Attributes:
        make: The class: called with the two spaces and a dict of settings.
        observation_space: The observation space.
        action_space: The action space.
        config: The settings.
    """

    make: Any
    observation_space: Any
    action_space: Any
    config: Mapping[str, Any]

    def made(self) -> Any:
        """Return a policy of the class."""
        return self.make(self.observation_space, self.action_space, dict(self.config))


class ScriptedLanes(AgentSlots):
    """Acts for all agents of a scripted policy, by one object. No policy learns from these steps."""

    def __init__(self, module_id: str, policy: ScriptedBlueprint, seed: int) -> None:
        """Make the object.

        Args:
            module_id: The id of the policy.
            policy: The blueprint that makes the object.
            seed: The seed of the run: an object that has an attribute `stream` gets a generator of random numbers.
        """
        super().__init__()
        self.module_id, self.policy, self._seed = module_id, policy, seed
        self.object = policy.made()
        """The policy."""
        self._preprocessor = preprocessor_of(policy.observation_space, None, {})
        self._seen: dict[int, Struct] = {}
        self._states: dict[int, list[Any]] = {}
        self._made: dict[int, int] = {}

    def take(self, copy: int, place: int, agent: Any, slot: int | None = None) -> int:
        """Return the position of a lane, whose agent remembers what the object says at first."""
        position = super().take(copy, place, agent, slot)
        initial = getattr(self.object, "get_initial_state", None)
        self._draw_for(position)
        self._states[position] = list(initial()) if callable(initial) else []
        return position

    def forget(self) -> None:
        """Take all lanes back."""
        super().forget()
        self._seen.clear()
        self._states.clear()

    def observe(self, position: int, seen: Struct, done: object = None) -> None:
        """Let the agent of a lane act next, on what it sees; `done` is not kept, as steps are not."""
        self._seen[position] = seen

    def own(self, position: int, episode_id: int, agent_index: int) -> None:
        """Do nothing: steps are not kept."""

    @staticmethod
    def counts_of(state: Mapping[str, Any]) -> dict[str, Any]:
        """Return of the state of a lane what stays true of it where its episode does not go on."""
        return {"made": state["made"], "state": []}

    def seen_by(self, position: int) -> Struct | None:
        """Return what the agent of a lane is to act on next; None if it waits."""
        return self._seen.get(position)

    def act(self, timestep: int) -> list[tuple[tuple[int, Any], Any]]:
        """Ask for the action of each agent that sees something; return the owner of each lane, and its action.

        Agents are asked for one at a time, so that what is drawn for one does not depend on who else there is.
        """
        found = []
        for position, seen in self._seen.items():
            self._draw_for(position)
            row = self._preprocessor.rows(nested.mapped(lambda value: value[None], seen))
            action, self._states[position] = action_of(self.object, row, self._states[position], timestep)
            found.append((self.owners[position], action))
        self._seen = {}
        return found

    def end(self, position: int, fate: int, final: Any) -> None:
        """Do nothing: steps are not kept."""

    def reward(self, position: int, reward: float) -> None:
        """Do nothing: steps are not kept."""

    def early(self, position: int, reward: float) -> None:
        """Do nothing: steps are not kept."""

    def fragment(self, version: int) -> None:
        """Return nothing: steps are not kept."""
        return

    def take_learned(self) -> dict[str, Any]:
        """Return nothing: what it observes is not filtered."""
        return {}

    def set_statistics(self, statistics: Mapping[str, Any]) -> None:
        """Do nothing: what it observes is not filtered."""

    def lane_state(self, position: int) -> dict[str, Any]:
        """Return what the agent of a lane remembers, and how often the object was asked for it."""
        return {
            "made": self._made.get(position, 0),
            "state": [_plain(value) for value in self._states.get(position, [])],
        }

    def set_lane_state(self, position: int, state: Mapping[str, Any]) -> None:
        """Go on with what `lane_state` returned."""
        self._made[position], self._states[position] = int(state["made"]), list(state["state"])

    def _draw_for(self, position: int) -> None:
        """Let the object draw the numbers that belong to this step of this lane, if it draws any."""
        if hasattr(self.object, "stream"):
            made = self._made[position] = self._made.get(position, 0) + 1
            self.object.stream = philox.stream(self._seed, self.module_id, self.numbers[position], made)


def action_of(policy: Any, row: Array, state: Sequence[Any], timestep: int, **told: Any) -> tuple[Any, list[Any]]:
    """Return the action of a policy of the user's own, and what it remembers after it.

    Args:
        policy: The object.
        row: A preprocessed observation, [1, ...].
        state: The values that it remembers from the step before.
        timestep: The number of steps that the run has made.
        told: Further arguments of the policy's method, by name.
    """
    returned = policy.compute_actions(row, [[value] for value in state], timestep=timestep, **told)
    actions, after = (*returned, None, None)[:2] if isinstance(returned, tuple) else (returned, None)
    return _plain(actions[0]), [value[0] for value in after] if after else list(state)


def require_scripted(policy_id: str, made: Any) -> None:
    """Raise ConfigError unless a class can be asked for actions."""
    if not callable(made) or not callable(getattr(made, "compute_actions", None)):
        raise ConfigError(
            f"the policy {policy_id!r} has the class {getattr(made, '__name__', made)!r}, which has no "
            "compute_actions(obs_batch, state_batches, ...): define it, returning actions, or leave the class out of "
            "the PolicySpec for a policy of the algorithm's"
        )


def _plain(value: Any) -> Any:
    return (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )
