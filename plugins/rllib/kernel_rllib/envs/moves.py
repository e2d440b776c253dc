"""Count the steps and resets that the environments of this process came through: signs of life of what steps them.

In a process that steps lanes for a runner, each command that it has taken counts as well.
"""

from __future__ import annotations


class Moves:
    """Counts them."""

    count = 0


MOVES = Moves()
