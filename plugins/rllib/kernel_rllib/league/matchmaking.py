"""Which policy each agent of an episode has: the mapping that runners ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from kernel_rllib.league.league import League, LeagueSettings
from kernel_rllib.nn import philox


@dataclass(frozen=True)
class Matchmaking:
    """Draws the match of each episode by the seed and the number of the episode: the same one in any process.

    Attributes:
        seed: The seed of the run.
        agents: The two agents.
        settings: The rules of the league.
        state: What is known of its players.
    """

    seed: int
    agents: Sequence[Any]
    settings: LeagueSettings
    state: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def league(self) -> League:
        """The league of that state."""
        league = League(self.settings)
        league.set_state(self.state)
        return league

    def __getstate__(self) -> dict[str, Any]:
        """Return what it is made of: the league is built of it where it is asked for."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __call__(self, agent_id: Any, episode: Any, *_: Any, **__: Any) -> str:
        """Return the policy of an agent; who learns is either of the two, as chance has it."""
        stream = philox.stream(self.seed, "match", int(episode.episode_id))
        pair = self.league.draw_match(stream)
        return pair[(list(self.agents).index(agent_id) + int(stream.random() < 0.5)) % 2]
