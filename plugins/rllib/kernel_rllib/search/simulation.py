"""Step an environment from states that it was in: what a search asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.envs.old_gym import five_values
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import Struct

GET_STATE, SET_STATE = "get_state", "set_state"
NUM_PLAYERS = "num_players"
"""The attribute of environments in which two players take turns: 2. Others have one player."""
SEARCH_ENV = "search_env"
"""The method of environments that are searched in others than themselves: it returns one of these."""


@dataclass(frozen=True)
class State:
    """Where an episode is.

    Attributes:
        env: What the environment's `get_state` returned.
        total: The sum of the rewards until then, where episodes are ranked by it.
    """

    env: Any
    total: float = 0.0


@dataclass(frozen=True)
class Followed:
    """What followed some states.

    Attributes:
        states: The states after one step [M].
        rows: What is observed there, as modules take it [M, W].
        rewards: The rewards of the steps [M].
        ended: Whether episodes ended with them [M].
    """

    states: list[State]
    rows: Array
    rewards: Array
    ended: Array


class Simulator(Protocol):
    """Steps from any state."""

    def follow(self, states: Sequence[State], actions: Array) -> Followed:
        """Return what follows states [M] by actions [M]."""
        ...


class EnvSimulator:
    """Steps one environment, which is put into a state before each step."""

    def __init__(
        self,
        env: Any,
        observation_space: Space[Any],
        rows: Callable[[Struct], Array],
        rank: Callable[[float], float] | None = None,
    ) -> None:
        """Step this environment.

        Args:
            env: The environment, which nobody else steps.
            observation_space: The space of what it observes.
            rows: Gives what modules take for observations.
            rank: Gives, for the sum of an episode's rewards, what it is worth: the only reward then, of its last step.
                None: rewards are what the environment says.
        """
        self._env, self._rows, self._rank = env, rows, rank
        self._name = type(env).__name__
        self._encoder = Encoder(observation_space, self._name)
        env.reset()

    def follow(self, states: Sequence[State], actions: Array) -> Followed:
        """Return what follows states [M] by actions [M]."""
        env, reached, seen = self._env, [], []
        rewards, ended = np.zeros(len(states)), np.zeros(len(states), bool)
        for place, (state, action) in enumerate(zip(states, actions.tolist(), strict=True)):
            env.set_state(state.env)
            observation, reward, terminated, truncated, _ = five_values(env.step(action), self._name)
            total = state.total + float(reward)
            ended[place] = bool(terminated) or bool(truncated)
            rewards[place] = float(reward) if self._rank is None else self._rank(total) if ended[place] else 0.0
            reached.append(State(env.get_state(), total))
            seen.append(observation)
        return Followed(reached, self._rows(self._encoder.batch(seen, "step")), rewards, ended)


def searchable(env: Any) -> Any:
    """Return the part of an environment, within its wrappers, that can be put into a state.

    Raises:
        EnvError: If there is none.
    """
    inner = env
    while not all(callable(getattr(inner, name, None)) for name in (GET_STATE, SET_STATE)):
        if (within := vars(inner).get("env")) is None:
            raise EnvError(
                f"{type(getattr(env, 'unwrapped', env)).__name__} can't be searched: give it get_state(), which "
                "returns where its episode is, and set_state(state), which goes back there"
            )
        inner = within
    return inner


def state_of(env: Any) -> Any:
    """Return where an environment is in its episode."""
    return searchable(env).get_state()


def players_of(env: Any) -> int:
    """Return how many players take turns in an environment: 1 or 2. Raises EnvError for others."""
    players = getattr(searchable(env), NUM_PLAYERS, 1)
    if players not in (1, 2):
        raise EnvError(
            f"{type(env).__name__}.{NUM_PLAYERS} is {players!r}, and searches know games of 1 player and of 2: set it "
            "to one of these"
        )
    return int(players)


def search_env_of(env: Any) -> Any:
    """Return the environment that a search steps in place of one that was made for it: mostly that itself."""
    inner = searchable(env)
    return searchable(inner.search_env()) if hasattr(inner, SEARCH_ENV) else inner
