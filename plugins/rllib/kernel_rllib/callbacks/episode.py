"""Episodes as callbacks see them, under the names of all generations. They are kept only where there are callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

AGENT = "agent0"
POLICY = "default_policy"


class NamesOfEpisodes:
    """Names of 2.x for what an episode is and has, with one agent and with several."""

    episode_id: int
    user_data: dict[str, Any]
    is_terminated: bool
    is_truncated: bool
    length: int

    @property
    def id_(self) -> str:
        """The number of the episode, as a text."""
        return f"{self.episode_id:x}"

    custom_data = property(lambda self: self.user_data, doc="Whatever callbacks keep from step to step.")
    is_done = property(lambda self: self.is_terminated or self.is_truncated, doc="Whether it has ended.")
    t = property(lambda self: self.length, doc="How many steps it has.")

    def __len__(self) -> int:
        return self.length


class EpisodeView(NamesOfEpisodes):
    """Holds one episode of one lane: its observations, actions and rewards so far, and the data of callbacks.

    Attributes:
        episode_id: A number of its own.
        env_id: The position of its environment in the runner.
        user_data: Whatever callbacks keep from step to step.
        custom_metrics: Numbers that are reported: their means, least and greatest ones over episodes.
        hist_data: Lists of numbers that are reported as they are, in `hist_stats`.
        media: Whatever is to be reported as it is, in `episode_media`.
        total_reward: The sum of its rewards.
        length: The number of its steps.
        observations: The observations, one more than there are steps.
        is_terminated: Whether it came to its own end.
        is_truncated: Whether it was cut from outside.
    """

    def __init__(self, episode_id: int, env_id: int, observation: Any, info: Any) -> None:
        """Begin with the first observation, and what was told with it."""
        self.episode_id, self.env_id = episode_id, env_id
        self.user_data: dict[str, Any] = {}
        self.custom_metrics: dict[str, float] = {}
        self.hist_data: dict[str, list[float]] = {}
        self.media: dict[str, Any] = {}
        self.total_reward, self.length = 0.0, 0
        self.observations, self.infos = [observation], [info]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.is_terminated = self.is_truncated = False

    def add(self, action: Any, observation: Any, reward: float, info: Any) -> None:
        """Take in a step."""
        self.actions.append(action)
        self.observations.append(observation)
        self.rewards.append(reward)
        self.infos.append(info)
        self.total_reward += reward
        self.length += 1

    # -- as today -----------------------------------------------------------------------------------------------------

    def get_observations(self, indices: Any = None, **_: Any) -> Any:
        """Return what was observed: all as an array, one by its place, or some by a slice or a list of places."""
        return chosen(self.observations, indices)

    def get_actions(self, indices: Any = None, **_: Any) -> Any:
        """Return what was done; see `get_observations`."""
        return chosen(self.actions, indices)

    def get_rewards(self, indices: Any = None, **_: Any) -> Any:
        """Return what was got; see `get_observations`."""
        return chosen(self.rewards, indices)

    def get_infos(self, indices: Any = None, **_: Any) -> Any:
        """Return what was told, as a list; see `get_observations`."""
        return chosen(self.infos, indices, list)

    def get_return(self) -> float:
        """Return the sum of its rewards."""
        return self.total_reward

    def env_steps(self) -> int:
        """Return how many steps the environment made."""
        return self.length

    agent_steps = env_steps

    # -- as in 0.8.5 and 1.x ------------------------------------------------------------------------------------------

    agent_rewards = property(
        lambda self: {(AGENT, POLICY): self.total_reward}, doc="The sum of rewards by agent and policy."
    )

    def get_agents(self) -> list[str]:
        """Return the names of its agents."""
        return [AGENT]

    def policy_for(self, agent_id: str = AGENT) -> str:
        """Return the id of an agent's policy."""
        return POLICY

    def last_observation_for(self, agent_id: str = AGENT) -> Any:
        """Return what was observed last, as the environment returned it."""
        return self.observations[-1]

    last_raw_obs_for = last_observation_for

    def last_info_for(self, agent_id: str = AGENT) -> Any:
        """Return what was told last."""
        return self.infos[-1]

    def last_action_for(self, agent_id: str = AGENT) -> Any:
        """Return what was done last; None before the first step."""
        return self.actions[-1] if self.actions else None

    def prev_action_for(self, agent_id: str = AGENT) -> Any:
        """Return what was done before that; None before the second step."""
        return self.actions[-2] if len(self.actions) > 1 else None

    def last_reward_for(self, agent_id: str = AGENT) -> float:
        """Return what was got last; 0 before the first step."""
        return self.rewards[-1] if self.rewards else 0.0

    def prev_reward_for(self, agent_id: str = AGENT) -> float:
        """Return what was got before that; 0 before the second step."""
        return self.rewards[-2] if len(self.rewards) > 1 else 0.0


def chosen(values: Sequence[Any], indices: Any, joined: Callable[[Any], Any] | None = None) -> Any:
    """Return values: all as an array, one by its place, or some by a slice or a list; `joined` makes them of a list."""
    if isinstance(indices, (int, np.integer)):
        return values[int(indices)]
    if indices is None:
        found = list(values)
    elif isinstance(indices, slice):
        found = list(values[indices])
    else:
        found = [values[index] for index in indices]
    if joined is not None or (found and isinstance(found[0], (dict, tuple, str))):
        return found
    return np.array(found)
