"""Games of OpenSpiel (Lanctot et al. 2019, arXiv:1908.09453): players who act by turns or at once, and chance.

They are given as they are; this needs nothing of that library itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array

_NEEDED = ("num_players", "num_distinct_actions", "new_initial_state", "get_type")


class OpenSpielEnv(MultiAgentEnv):
    """A game of OpenSpiel, whose agents are the players 0, 1, ...: `OpenSpielEnv(pyspiel.load_game("connect_four"))`.

    Each player whose turn it is observes something, as one row of numbers. Rewards are by how much the returns of all
    players have changed. Chance draws by the seed that `reset` got. An action that may not be taken becomes any that
    may be, and costs `illegal_action_penalty`.
    """

    def __init__(self, env: Any, *, action_masks: bool = False, illegal_action_penalty: float = 0.1) -> None:
        """Take a game.

        Args:
            env: The game, as `pyspiel.load_game` returns it.
            action_masks: Whether observations are a Dict of `obs` and `action_mask`, which has a 1 for each action
                that may be taken.
            illegal_action_penalty: The cost of an action that may not be taken, in units of reward.

        Raises:
            EnvError: If it is no game of OpenSpiel, or one that can't be played so.
        """
        if missing := [name for name in _NEEDED if not hasattr(env, name)]:
            raise EnvError(
                f"OpenSpielEnv got {type(env).__name__}, which has no {', '.join(missing)}: give a game of OpenSpiel, "
                'as pyspiel.load_game("connect_four") returns it'
            )
        self.game, self.type = env, env.get_type()
        if "MEAN_FIELD" in str(self.type.dynamics):
            raise EnvError(
                f"{self.type.short_name} is a game of a crowd (mean field), and agents are single players here: give "
                "one whose players act by turns or at once"
            )
        self._seen = self._observed_by()
        self._masks, self._penalty = action_masks, illegal_action_penalty
        self.agents = self.possible_agents = list(range(env.num_players()))
        self._actions = int(env.num_distinct_actions())
        size = int(np.prod(getattr(env, f"{self._seen}_shape")()))
        seen = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        mask = spaces.Box(0.0, 1.0, (self._actions,), np.float32)
        observed = spaces.Dict({"action_mask": mask, "obs": seen}) if action_masks else seen
        self.observation_spaces = dict.fromkeys(self.agents, observed)
        self.action_spaces = dict.fromkeys(self.agents, spaces.Discrete(self._actions))
        self.state: Any = None
        """The state of the game; None before the first `reset`."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin a game."""
        if seed is not None:
            self._np_random = np.random.default_rng(seed)
        self.state = self.game.new_initial_state()
        self._let_chance_draw()
        return self._observed(), {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Let the players act whose turn it is."""
        before = list(self.state.returns())
        penalties = dict.fromkeys(self.agents, 0.0)
        actions = {player: self._legal(player, int(action_dict[player]), penalties) for player in self._acting()}
        if self.state.is_simultaneous_node():
            self.state.apply_actions([actions.get(player, 0) for player in self.agents])
        else:
            self.state.apply_action(*actions.values())
        self._let_chance_draw()
        after = self.state.returns()
        rewards = {player: float(after[player] - before[player]) - penalties[player] for player in self.agents}
        over = bool(self.state.is_terminal())
        ends = dict.fromkeys([*self.agents, ALL], over)
        return self._observed(), rewards, ends, dict.fromkeys(ends, False), {}

    def render(self) -> Any:
        """Return the state as text."""
        return str(self.state)

    def _observed_by(self) -> str:
        """Return the name of the tensor that players see. Raises EnvError where the game has none."""
        for name in ("observation_tensor", "information_state_tensor"):
            if getattr(self.type, f"provides_{name}"):
                return name
        raise EnvError(
            f"{self.type.short_name} shows its players no tensor of numbers, neither observation_tensor nor "
            "information_state_tensor: give another game"
        )

    def _acting(self) -> list[int]:
        """Return the players whose turn it is."""
        if self.state.is_terminal():
            return []
        if not self.state.is_simultaneous_node():
            return [self.state.current_player()]
        return [player for player in self.agents if self.state.legal_actions(player)]

    def _observed(self) -> dict[Any, Any]:
        return {player: self._observed_of(player) for player in self._acting()}

    def _observed_of(self, player: int) -> Any:
        row: Array = np.asarray(getattr(self.state, self._seen)(player), np.float32).ravel()
        if not self._masks:
            return row
        mask = np.zeros(self._actions, np.float32)
        mask[self.state.legal_actions(player)] = 1
        return {"action_mask": mask, "obs": row}

    def _legal(self, player: int, action: int, penalties: dict[int, float]) -> int:
        """Return the action, or any that may be taken in its place; note what that costs."""
        legal = self.state.legal_actions(player)
        if action in legal:
            return action
        penalties[player] = self._penalty
        return int(self.np_random.choice(legal))

    def _let_chance_draw(self) -> None:
        """Go on to where players act, or where the game is over."""
        while self.state.is_chance_node():
            outcomes, shares = zip(*self.state.chance_outcomes(), strict=True)
            self.state.apply_action(int(self.np_random.choice(outcomes, p=np.divide(shares, np.sum(shares)))))
