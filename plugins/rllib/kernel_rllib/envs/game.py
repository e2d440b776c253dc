"""Rules of an environment for many lanes at once, and one lane of them as an environment of gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import Space

from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested
from kernel_rllib.spaces.nested import Array, Struct

Generator = np.random.Generator


class Game:
    """The state of many lanes, and how actions change it. Derive from it, and define what raises here.

    Each array of the state has the lanes as its last axis, and its name is in `arrays`, so that a lane can be saved.
    All randomness comes from the generators that are passed: a lane never sees how many others there are.

    settings: the `env_config`. Names that are not in `defaults` are refused.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    """The settings that there are, with their values where none is given."""
    arrays: ClassVar[tuple[str, ...]] = ()
    observation_space: Space[Any]
    action_space: Space[Any]

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        unknown = [name for name in settings or {} if name not in self.defaults]
        if "render_mode" in unknown:
            raise EnvError(
                f"{type(self).__name__} draws nothing: leave out render_mode and render_env. To see episodes, take the "
                "environment of gymnasium"
            )
        if unknown:
            raise EnvError(
                f"{type(self).__name__} has no setting {unknown[0]!r}: there are {', '.join(self.defaults) or 'none'}"
            )
        self.settings = {**self.defaults, **(settings or {})}

    @property
    def max_episode_steps(self) -> int | None:
        """After how many steps an episode is truncated; None: never."""
        limit = self.settings.get("max_episode_steps")
        return None if limit is None else int(limit)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state for this many lanes."""
        raise NotImplementedError

    def begin(self, lane: int, generator: Generator) -> None:
        """Put one lane at the start of an episode."""
        raise NotImplementedError

    def advance(self, actions: Struct, generators: list[Generator]) -> tuple[Array, Array]:
        """Do one action in each lane; return rewards [lanes], and whether the episode came to its own end [lanes]."""
        raise NotImplementedError

    def observe(self, lanes: Any) -> Struct:
        """Return what is seen in the lanes that a slice or a list chooses: new arrays [lanes, ...]."""
        raise NotImplementedError

    def infos(self, lane: int) -> dict[str, Any]:
        """Return the info of one lane after a step."""
        return {}

    def save(self, lane: int) -> dict[str, Array]:
        """Return the state of one lane."""
        return {name: np.array(getattr(self, name)[..., lane]) for name in self.arrays}

    def load(self, lane: int, saved: Mapping[str, Array]) -> None:
        """Set the state of one lane."""
        for name, value in saved.items():
            getattr(self, name)[..., lane] = value


class SingleEnv(gymnasium.Env[Any, Any]):
    """One lane of a game as an environment of gymnasium. Derived classes name their game.

    env_config: the settings of the game.
    """

    game_class: ClassVar[type[Game]]

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self.game = self.game_class(env_config)
        self.game.allocate(1)
        self.observation_space = self.game.observation_space
        self.action_space = self.game.action_space
        self._elapsed = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; return the observation and the info."""
        super().reset(seed=seed)
        self._elapsed = 0
        self.game.begin(0, self.np_random)
        return self._observation(), self.game.infos(0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Do one action; return the observation, the reward, terminated, truncated and the info."""
        self._elapsed += 1
        struct = nested.empty(self.action_space, 1)
        nested.write_row(struct, 0, action)
        rewards, terminateds = self.game.advance(struct, [self.np_random])
        limit = self.game.max_episode_steps
        truncated = limit is not None and self._elapsed >= limit
        return self._observation(), float(rewards[0]), bool(terminateds[0]), truncated, self.game.infos(0)

    def _observation(self) -> Any:
        return nested.unstack(self.observation_space, self.game.observe([0]))[0]
