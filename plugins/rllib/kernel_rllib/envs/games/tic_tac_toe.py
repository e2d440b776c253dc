"""Tic-tac-toe: three in a row on a board of nine cells. Between players who make no mistake it is a draw."""

from __future__ import annotations

from functools import cache

import numpy as np

from kernel_rllib.envs.games.board_game import (
    BoardGame,
    GameRules,
    Position,
    TwoPlayerBoardGame,
    lines_through,
    random_opponent,
)

LINES = [
    *((3 * row, 3 * row + 1, 3 * row + 2) for row in range(3)),
    *((column, column + 3, column + 6) for column in range(3)),
    (0, 4, 8),
    (2, 4, 6),
]
_THROUGH = lines_through(9, LINES)


class TicTacToeRules(GameRules):
    """An action is the number of a cell, row by row."""

    cells = actions = 9

    def legal(self, position: Position) -> list[int]:
        """Return the empty cells."""
        return [cell for cell, stone in enumerate(position) if not stone]

    def place(self, position: Position, action: int) -> int:
        """Return the cell itself."""
        return action

    def wins(self, position: Position, cell: int) -> bool:
        """Return whether three in a row go through a cell."""
        own = position[cell]
        return any(all(position[other] == own for other in line) for line in _THROUGH[cell])


RULES = TicTacToeRules()


@cache
def minimax(position: Position) -> int:
    """Return the outcome for who moves, 1, 0 or -1, if nobody makes a mistake from here on."""
    return max(value_of_move(position, action) for action in RULES.legal(position))


def value_of_move(position: Position, action: int) -> int:
    """Return the outcome of a move for who makes it, if nobody makes a mistake afterwards."""
    after, won, over = RULES.play(position, action)
    return 1 if won else 0 if over else -minimax(after)


def perfect_opponent(rules: GameRules, position: Position, generator: np.random.Generator) -> int:
    """Return any of the best moves."""
    worth = {action: value_of_move(position, action) for action in rules.legal(position)}
    return int(generator.choice([action for action, value in worth.items() if value == max(worth.values())]))


class TicTacToe(BoardGame):
    """Tic-tac-toe of the player that acts. `opponent` may be "random" or "perfect"; see `board_game.BoardGame`."""

    rules = RULES
    opponents = {"random": random_opponent, "perfect": perfect_opponent}  # noqa: RUF012


class TwoPlayerTicTacToe(TwoPlayerBoardGame):
    """Tic-tac-toe of two agents; see `board_game.TwoPlayerBoardGame`."""

    rules = RULES
