"""The environments of slates under the names and settings that RLlib's wrappers of RecSim had; without RecSim.

What users and documents do is in `interest_evolution` and `long_term_satisfaction`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import SingleEnv
from kernel_rllib.envs.games.interest_evolution import InterestEvolution
from kernel_rllib.envs.games.long_term_satisfaction import LongTermSatisfaction
from kernel_rllib.errors import EnvError
from kernel_rllib.nearest import did_you_mean

DISCRETE, BANDITS, DOCUMENTS = "convert_to_discrete_action_space", "wrap_for_bandits", "resample_documents"


class _Slates(gymnasium.Env[Any, Any]):
    """An environment of slates, with the settings of those wrappers.

    Settings: `num_candidates` and `slate_size`; `convert_to_discrete_action_space` (False), whether an action is the
    number of a slate among all that there are; `wrap_for_bandits` (False), whether contexts are of items, as linear
    bandits take them; `resample_documents`, which is True; and `seed`, which has no effect, as runs have one.
    """

    slates: ClassVar[type[SingleEnv]]
    for_bandits: ClassVar[bool]

    def __init__(self, config: Any = None) -> None:
        """Make it.

        Raises:
            EnvError: If there is another setting, or one can't be.
        """
        given = dict(config or {})
        given.pop("seed", None)
        if not given.pop(DOCUMENTS, True):
            raise EnvError(f"{type(self).__name__} draws new documents for each step: leave {DOCUMENTS} at True")
        is_discrete, is_for_bandits = bool(given.pop(DISCRETE, False)), bool(given.pop(BANDITS, False))
        if is_for_bandits and not self.for_bandits:
            raise EnvError(
                f"{type(self).__name__} has no contexts for bandits ({BANDITS}=True): take InterestEvolutionRecSimEnv"
            )
        known = self.slates.game_class.defaults
        for name in given:
            if name not in known:
                names = (*known, DISCRETE, BANDITS, DOCUMENTS, "seed")
                raise EnvError(f"{type(self).__name__} has no setting {name!r}{did_you_mean(name, names)}")
        self._env = self.slates({**given, **({"parametric": True} if is_for_bandits else {})})
        self.observation_space, self.action_space = self._env.observation_space, self._env.action_space
        self._sizes: tuple[int, ...] | None = None
        if is_discrete and isinstance(self.action_space, spaces.MultiDiscrete):
            self._sizes = tuple(int(size) for size in self.action_space.nvec)
            self.action_space = spaces.Discrete(int(np.prod(self._sizes)))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin with a new user."""
        return self._env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Show a slate."""
        shown = action if self._sizes is None else np.array(np.unravel_index(int(action), self._sizes))
        return self._env.step(shown)


class InterestEvolutionRecSimEnv(_Slates):
    """Users whose interests change by what they watch."""

    slates, for_bandits = InterestEvolution, True


class LongTermSatisfactionRecSimEnv(_Slates):
    """Users who are less engaged the more chocolate they got in place of kale."""

    slates, for_bandits = LongTermSatisfaction, False
