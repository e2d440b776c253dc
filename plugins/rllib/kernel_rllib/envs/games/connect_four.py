"""Connect four: stones fall down seven columns of six cells; who has four in a row wins."""

from __future__ import annotations

import numpy as np

from kernel_rllib.envs.games.board_game import (
    BoardGame,
    GameRules,
    Position,
    TwoPlayerBoardGame,
    lines_through,
    random_opponent,
)

ROWS, COLUMNS, LENGTH = 6, 7, 4
_STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))


def _lines() -> list[tuple[int, ...]]:
    """Return all rows of four cells. Cell `COLUMNS * row + column` counts rows from the bottom."""
    found = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            for down, right in _STEPS:
                cells = [(row + down * k, column + right * k) for k in range(LENGTH)]
                if all(0 <= y < ROWS and 0 <= x < COLUMNS for y, x in cells):
                    found.append(tuple(COLUMNS * y + x for y, x in cells))
    return found


_THROUGH = lines_through(ROWS * COLUMNS, _lines())


class ConnectFourRules(GameRules):
    """An action is the number of a column, from the left."""

    cells, actions = ROWS * COLUMNS, COLUMNS

    def legal(self, position: Position) -> list[int]:
        """Return the columns that are not full."""
        return [column for column in range(COLUMNS) if not position[(ROWS - 1) * COLUMNS + column]]

    def place(self, position: Position, action: int) -> int:
        """Return the lowest empty cell of a column."""
        return next(cell for cell in range(action, ROWS * COLUMNS, COLUMNS) if not position[cell])

    def wins(self, position: Position, cell: int) -> bool:
        """Return whether four in a row go through a cell."""
        own = position[cell]
        return any(all(position[other] == own for other in line) for line in _THROUGH[cell])


RULES = ConnectFourRules()


def careful_opponent(rules: GameRules, position: Position, generator: np.random.Generator) -> int:
    """Return a move that wins at once, or else one that keeps the other from it, or else any."""
    legal = rules.legal(position)
    other = tuple(-stone for stone in position)
    for board in (position, other):
        winning = [action for action in legal if rules.play(board, action)[1]]
        if winning:
            return winning[0]
    return int(generator.choice(legal))


class ConnectFour(BoardGame):
    """Connect four of the player that acts. `opponent` may be "random" or "careful"; see `board_game.BoardGame`."""

    rules = RULES
    opponents = {"random": random_opponent, "careful": careful_opponent}  # noqa: RUF012


class TwoPlayerConnectFour(TwoPlayerBoardGame):
    """Connect four of two agents; see `board_game.TwoPlayerBoardGame`."""

    rules = RULES
