"""Episodes of several agents as callbacks see them, under the names of all generations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kernel_rllib.callbacks.episode import NamesOfEpisodes, chosen
from kernel_rllib.errors import CallbackError
from kernel_rllib.nearest import did_you_mean


class AgentTrack:
    """Holds the observations, actions and rewards of one agent so far.

    Attributes:
        observations: The observations of the agent.
        infos: The infos with these.
        actions: The actions of the agent.
        rewards: Its rewards, by the steps of the environment in which it got any.
    """

    def __init__(self) -> None:
        """Begin without anything."""
        self.observations: list[Any] = []
        self.infos: list[Any] = []
        self.actions: list[Any] = []
        self.rewards: list[float] = []


class AgentsEpisodeView(NamesOfEpisodes):
    """Holds one episode of one copy of an environment with several agents.

    Attributes:
        episode_id: A number of its own, that which `policy_mapping_fn` has seen.
        env_id: The position of its environment in the runner.
        user_data: Whatever callbacks and `policy_mapping_fn` keep from step to step.
        custom_metrics: Numbers that are reported: their means, least and greatest ones over episodes.
        hist_data: Lists of numbers that are reported as they are, in `hist_stats`.
        media: Whatever is to be reported as it is, in `episode_media`.
        length: The number of steps of the environment.
        tracks: The observations, actions and rewards of each agent, by agent.
        common_info: The last info of all agents together, under `"__common__"`.
        is_terminated: Whether it came to its own end.
        is_truncated: Whether it was cut from outside.
    """

    def __init__(self, known: Any, env_id: int) -> None:
        """Begin; `known` is what the runner keeps of the episode: its number, who is in it, with which policies."""
        self._known = known
        self.episode_id, self.env_id = known.episode_id, env_id
        self.user_data: dict[str, Any] = known.user_data
        self.custom_metrics: dict[str, float] = {}
        self.hist_data: dict[str, list[float]] = {}
        self.media: dict[str, Any] = {}
        self.length = 0
        self.tracks: dict[Any, AgentTrack] = {}
        self.common_info: Any = {}
        self.is_terminated = self.is_truncated = False

    def follow(self, known: Any) -> None:
        """Go on with what another runner keeps of the episode."""
        self._known, self.user_data = known, known.user_data

    def observe(self, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Take in what agents observe, and what was told."""
        self.common_info = infos.get("__common__", {})
        for agent, observation in seen.items():
            track = self._made(agent)
            track.observations.append(observation)
            track.infos.append(infos.get(agent, {}))

    def step(self, actions: Mapping[Any, Any], rewards: Mapping[Any, float]) -> None:
        """Take in what agents did, and what they got for it."""
        self.length += 1
        for agent, action in actions.items():
            self._made(agent).actions.append(action)
        for agent, reward in rewards.items():
            self._made(agent).rewards.append(reward)

    # -- who is in it -------------------------------------------------------------------------------------------------

    @property
    def agent_ids(self) -> list[Any]:
        """The agents that have been in the episode, in the order in which they appeared."""
        return list(self._known.policies)

    def get_agents(self) -> list[Any]:
        """Return all agents that have been in it."""
        return self.agent_ids

    def policy_for(self, agent_id: Any) -> str:
        """Return the id of an agent's policy. Raises CallbackError if no such agent has been in the episode."""
        policies: dict[Any, str] = self._known.policies
        if agent_id not in policies:
            raise CallbackError(self._nobody(agent_id))
        return policies[agent_id]

    module_for = policy_for

    # -- as today -----------------------------------------------------------------------------------------------------

    def get_observations(self, indices: Any = None, agent_ids: Collection[Any] | None = None, **_: Any) -> Any:
        """Return what agents observed, by agent: all, one by its place, or some by a slice or a list of places."""
        return self._by_agent("observations", indices, agent_ids)

    def get_actions(self, indices: Any = None, agent_ids: Collection[Any] | None = None, **_: Any) -> Any:
        """Return what agents did, by agent; see `get_observations`."""
        return self._by_agent("actions", indices, agent_ids)

    def get_rewards(self, indices: Any = None, agent_ids: Collection[Any] | None = None, **_: Any) -> Any:
        """Return what agents got, by agent; see `get_observations`."""
        return self._by_agent("rewards", indices, agent_ids)

    def get_infos(self, indices: Any = None, agent_ids: Collection[Any] | None = None, **_: Any) -> Any:
        """Return what agents were told, by agent, as lists; see `get_observations`."""
        return self._by_agent("infos", indices, agent_ids)

    def get_return(self) -> float:
        """Return the sum of what all agents got."""
        return self.total_reward

    def env_steps(self) -> int:
        """Return how many steps the environment made."""
        return self.length

    def agent_steps(self) -> int:
        """Return how many steps agents made."""
        return sum(len(track.actions) for track in self.tracks.values())

    # -- as in 0.8.5 and 1.x ------------------------------------------------------------------------------------------

    @property
    def total_reward(self) -> float:
        """The sum of the rewards of all agents."""
        return float(sum(sum(track.rewards) for track in self.tracks.values()))

    @property
    def agent_rewards(self) -> dict[tuple[Any, str], float]:
        """The sum of rewards by agent and policy."""
        return {(agent, self.policy_for(agent)): float(sum(self._of(agent).rewards)) for agent in self.agent_ids}

    def last_observation_for(self, agent_id: Any) -> Any:
        """Return what an agent observed last, as the environment returned it; None if it has observed nothing."""
        return _from_end(self._of(agent_id).observations, 1, None)

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: Any) -> Any:
        """Return what an agent was told last; for `"__common__"`, what all were."""
        return self.common_info if agent_id == "__common__" else _from_end(self._of(agent_id).infos, 1, {})

    def last_action_for(self, agent_id: Any) -> Any:
        """Return what an agent did last; None before its first step."""
        return _from_end(self._of(agent_id).actions, 1, None)

    def prev_action_for(self, agent_id: Any) -> Any:
        """Return what an agent did before that; None before its second step."""
        return _from_end(self._of(agent_id).actions, 2, None)

    def last_reward_for(self, agent_id: Any) -> float:
        """Return what an agent got last; 0 before anything."""
        return float(_from_end(self._of(agent_id).rewards, 1, 0.0))

    def prev_reward_for(self, agent_id: Any) -> float:
        """Return what an agent got before that; 0 before that."""
        return float(_from_end(self._of(agent_id).rewards, 2, 0.0))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _made(self, agent: Any) -> AgentTrack:
        return self.tracks.setdefault(agent, AgentTrack())

    def _of(self, agent: Any) -> AgentTrack:
        self.policy_for(agent)
        return self._made(agent)

    def _by_agent(self, what: str, indices: Any, agents: Collection[Any] | None) -> dict[Any, Any]:
        wanted = {agent: getattr(self._of(agent), what) for agent in agents or self.agent_ids}
        joined = list if what == "infos" else None
        if not isinstance(indices, int):
            return {agent: chosen(values, indices, joined) for agent, values in wanted.items()}
        return {agent: values[indices] for agent, values in wanted.items() if -len(values) <= indices < len(values)}

    def _nobody(self, agent: Any) -> str:
        there = [str(each) for each in self.agent_ids]
        return (
            f"no agent {agent!r} has been in this episode{did_you_mean(str(agent), there)}; there are "
            f"{', '.join(there) or 'none yet'}"
        )


def _from_end(values: list[Any], place: int, otherwise: Any) -> Any:
    return values[-place] if len(values) >= place else otherwise
