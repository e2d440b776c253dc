"""Environments of PettingZoo (Terry et al. 2021, arXiv 2009.14471): of agents that act at once, and by turns.

They are given as they are; this needs nothing of that library itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.envs.multi_agent import ALL, Dicts, MultiAgentEnv
from kernel_rllib.errors import EnvError


class _OfPettingZoo(MultiAgentEnv):
    """The base of both kinds of adapters: agents, spaces, pictures."""

    needs: tuple[str, ...] = ()
    """The methods and attributes that tell this kind from the other."""
    other = ""
    """The name of the adapter for the other kind."""

    def __init__(self, env: Any) -> None:
        """Take an environment of PettingZoo. Raises EnvError where it is none, or of the other kind."""
        missing = [name for name in ("possible_agents", "observation_space", *self.needs) if not hasattr(env, name)]
        if missing:
            raise EnvError(
                f"{type(self).__name__} got {type(env).__name__}, which has no {', '.join(missing)}: give an "
                f"environment of PettingZoo, and one of the other kind to {self.other}"
            )
        self.env = env
        self.render_mode = getattr(env, "render_mode", None)
        self.agents = self.possible_agents = list(env.possible_agents)
        self.observation_spaces = {agent: env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: env.action_space(agent) for agent in self.possible_agents}

    def render(self) -> Any:
        """Return what the environment draws."""
        return self.env.render()

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def _ends(self, terminateds: dict[Any, bool], truncateds: dict[Any, bool]) -> None:
        """Say whether the episode is over for everybody: where no agent is left; cut, if it was so for all of them."""
        is_over = not self.env.agents
        is_cut = is_over and all(truncateds.values()) and not any(terminateds.values())
        terminateds[ALL], truncateds[ALL] = is_over and not is_cut, is_cut


class ParallelPettingZooEnv(_OfPettingZoo):
    """Agents that act at the same time: an environment of PettingZoo's parallel kind."""

    needs = ("step",)
    other = "PettingZooEnv"

    def __init__(self, env: Any) -> None:
        """Take the environment. Raises EnvError for one whose agents act by turns."""
        if hasattr(env, "agent_selection") or hasattr(env, "last"):
            raise EnvError(
                f"ParallelPettingZooEnv got {type(env).__name__}, whose agents act by turns: PettingZooEnv takes it"
            )
        super().__init__(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode."""
        seen, infos = self.env.reset(seed=seed, options=options)
        return dict(seen), dict(infos or {})

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Let all agents act."""
        seen, rewards, terminateds, truncateds, infos = (dict(part) for part in self.env.step(dict(action_dict)))
        self._ends(terminateds, truncateds)
        return seen, rewards, terminateds, truncateds, infos


class PettingZooEnv(_OfPettingZoo):
    """Agents that act by turns: an environment of PettingZoo's AEC kind.

    The agent whose turn it is sees something and acts. Its reward is what came to it since it acted before, whoever
    acted meanwhile.
    """

    needs = ("agent_iter", "last", "step")
    other = "ParallelPettingZooEnv"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begin an episode: the first agent sees something."""
        self.env.reset(seed=seed, options=options)
        agent = self.env.agent_selection
        seen, _, _, _, info = self.env.last()
        return {agent: seen}, {agent: info} if info else {}

    def step(self, action_dict: Mapping[Any, Any]) -> Dicts:  # type: ignore[override]
        """Let the agent act whose turn it is; the next one sees something. Agents that are done are led out."""
        out: Dicts = ({}, {}, {}, {}, {})
        self.env.step(action_dict[self.env.agent_selection])
        while self.env.agents:
            agent = self.env.agent_selection
            told = self.env.last()
            for values, value in zip(out, told, strict=True):
                values[agent] = value
            if not (told[2] or told[3]):
                break
            self.env.step(None)
        self._ends(out[2], out[3])
        return out
