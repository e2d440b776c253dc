"""Board games of two players who take turns: as environments of the player that acts, with or without an opponent.

A game is a pure set of rules over positions, which are tuples of numbers: 1 for a stone of who acts, -1 for one of the
other, 0 for none. So all is seen from the view of the player to move.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array

Position = tuple[int, ...]
PLAYERS = ("player_0", "player_1")
OPPONENT, OPPONENT_BEGINS = "opponent", "opponent_begins"


class GameRules:
    """The rules of a game without chance, whose players see all."""

    cells: ClassVar[int]
    actions: ClassVar[int]

    def begin(self) -> Position:
        """Return the position in which the first player moves."""
        return (0,) * self.cells

    @abstractmethod
    def legal(self, position: Position) -> list[int]:
        """Return the actions that may be taken."""

    @abstractmethod
    def place(self, position: Position, action: int) -> int:
        """Return the cell in which an action puts a stone."""

    @abstractmethod
    def wins(self, position: Position, cell: int) -> bool:
        """Return whether the stone in a cell completes a line of its player."""

    def play(self, position: Position, action: int) -> tuple[Position, bool, bool]:
        """Return the position that the other player sees next, whether the move has won, and whether it was the last.

        Raises:
            EnvError: If the action may not be taken.
        """
        if action not in (legal := self.legal(position)):
            raise EnvError(f"action {action} may not be taken now, but {legal}: observations say so in action_mask")
        cell = self.place(position, action)
        board = list(position)
        board[cell] = 1
        won = self.wins(tuple(board), cell)
        after = tuple(-stone for stone in board)
        return after, won, won or not self.legal(after)


Opponent = Callable[[GameRules, Position, np.random.Generator], int]
"""Gives the action of an opponent in a position."""


def random_opponent(rules: GameRules, position: Position, generator: np.random.Generator) -> int:
    """Return any action that may be taken."""
    return int(generator.choice(rules.legal(position)))


class BoardGame(gymnasium.Env[Any, Any]):
    """A board game as an environment. Derived classes name its rules.

    By default an agent moves for both players in turn, and the reward of a step is that of who moved: 1 for a move that
    wins. env_config: `opponent` (None; "random", or another of `opponents`: it answers each move, and a step is worth
    -1 if its answer wins), `opponent_begins` (None: in every second game; True, False).

    An observation is a dict: `obs`, the own stones and then the other's, and `action_mask`.
    """

    rules: ClassVar[GameRules]
    opponents: ClassVar[Mapping[str, Opponent]] = {"random": random_opponent}
    num_players = 2

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = dict(env_config or {})
        name = config.get(OPPONENT)
        if name is not None and name not in self.opponents:
            raise EnvError(
                f"{type(self).__name__} has no opponent {name!r}: there are {', '.join(sorted(self.opponents))}, or "
                "None for an agent that moves for both players"
            )
        self._answers = None if name is None else self.opponents[name]
        self._begins = config.get(OPPONENT_BEGINS)
        self._games = 0
        self.observation_space, self.action_space = spaces_of_game(self.rules)
        self._position = self.rules.begin()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game; the opponent makes the first move where it is its turn to begin."""
        super().reset(seed=seed)
        self._position = self.rules.begin()
        self._games += 1
        if self._answers is not None and (self._games % 2 == 0 if self._begins is None else self._begins):
            self._position, _, _ = self._answer(self._answers)
        return seen_in(self.rules, self._position), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a move, and let the opponent answer, if there is one. Raises EnvError for one that may not be made."""
        self._position, won, over = self.rules.play(self._position, int(action))
        reward = float(won)
        if self._answers is not None and not over:
            self._position, won, over = self._answer(self._answers)
            reward = -float(won)
        return seen_in(self.rules, self._position), reward, over, False, {}

    def get_state(self) -> Position:
        """Return the position, from the view of who moves."""
        return self._position

    def set_state(self, state: Position) -> dict[str, Array]:
        """Go back to a position, and return what is observed there."""
        self._position = state
        return seen_in(self.rules, self._position)

    def search_env(self) -> BoardGame:
        """Return the game without an opponent: a search makes the moves of both."""
        return type(self)()

    def _answer(self, opponent: Opponent) -> tuple[Position, bool, bool]:
        return self.rules.play(self._position, opponent(self.rules, self._position, self.np_random))


class TwoPlayerBoardGame(MultiAgentEnv):
    """A board game of two agents, "player_0" and "player_1", who observe when it is their turn. The first begins.

    Derived classes name its rules. The winner gets 1, the other -1. env_config: `illegal_moves_lose` (True: who makes a
    move that may not be made has lost; False: it is an error).
    """

    rules: ClassVar[GameRules]

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        self._illegal_loses = bool((env_config or {}).get("illegal_moves_lose", True))
        self.agents = self.possible_agents = list(PLAYERS)
        self.observation_space, self.action_space = spaces_of_game(self.rules)
        self._position, self._turn = self.rules.begin(), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin a game."""
        self._position, self._turn = self.rules.begin(), 0
        return {PLAYERS[0]: seen_in(self.rules, self._position)}, {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Make the move of who is to move."""
        mover, other = PLAYERS[self._turn], PLAYERS[1 - self._turn]
        action = int(action_dict[mover])
        if self._illegal_loses and action not in self.rules.legal(self._position):
            rewards, over = {mover: -1.0, other: 1.0}, True
        else:
            self._position, won, over = self.rules.play(self._position, action)
            rewards = {mover: float(won), other: -float(won)}
        self._turn = 1 - self._turn
        obs = {other: seen_in(self.rules, self._position)}
        if over:
            obs[mover] = seen_in(self.rules, tuple(-stone for stone in self._position))
        return obs, rewards, {ALL: over}, {ALL: False}, {}


def spaces_of_game(rules: GameRules) -> tuple[spaces.Dict, spaces.Discrete]:
    """Return what is observed in a game, and its actions."""
    seen = spaces.Dict({
        "action_mask": spaces.Box(0.0, 1.0, (rules.actions,), np.float32),
        "obs": spaces.Box(0.0, 1.0, (2 * rules.cells,), np.float32),
    })  # fmt: skip
    return seen, spaces.Discrete(rules.actions)


def seen_in(rules: GameRules, position: Position) -> dict[str, Array]:
    """Return what the player to move observes in a position."""
    board = np.array(position, np.int8)
    mask, seen = np.zeros(rules.actions, np.float32), np.empty((2, rules.cells), np.float32)
    mask[rules.legal(position)] = 1
    np.greater(board, 0, out=seen[0])
    np.less(board, 0, out=seen[1])
    return {"action_mask": mask, "obs": seen.ravel()}


def lines_through(cells: int, lines: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Return for each cell the lines that it is in."""
    return [[line for line in lines if cell in line] for cell in range(cells)]
