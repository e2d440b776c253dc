"""How many steps and resets the environments of this process came through: a sign of life of who steps them."""

from __future__ import annotations


class Moves:
    """Counts them."""

    count = 0


MOVES = Moves()
