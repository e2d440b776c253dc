"""Algorithms of RLlib that are not here yet: what to take today for each of them. Data only."""

from __future__ import annotations

_SEARCH = "AlphaZero plays both sides of games of two, and PPO and DQN learn without a search"

LATER = {
    "LeelaChessZero": _SEARCH,
}
"""The names that releases of RLlib had for algorithms of a later part, and what to take today, or why nothing."""

CONTRIBUTED = "contrib/"
"""The prefix of the names of algorithms that users of RLlib had contributed."""
