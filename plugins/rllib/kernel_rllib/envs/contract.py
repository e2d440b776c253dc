"""The contract between runners and environments: many lanes that are stepped together.

A lane is one copy of an environment, for ever: when its episode ends, the next begins in the same step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from gymnasium import Space

from kernel_rllib.spaces.nested import Array, Struct

Infos = Mapping[int, Mapping[str, Any]]
"""The infos of environments, by lane. Lanes without an info are left out."""


class Step(NamedTuple):
    """The results of one step of all lanes. The next call may reuse the arrays: copy those that you keep."""

    obs: Struct
    """Observations [lanes, ...]: where an episode ended, the first one of the next episode."""
    rewards: Array
    """float32 [lanes]."""
    terminateds: Array
    """bool [lanes]: the episode came to its own end; nothing of value comes after."""
    truncateds: Array
    """bool [lanes]: the episode was cut from outside (a time limit, a fault); what comes after has a value."""
    final_obs: Mapping[int, Struct] = {}
    """The last observation of each lane whose episode ended."""
    infos: Infos = {}  # noqa: RUF012
    """The infos of this step; for an ended episode, the info with its last observation."""
    reset_infos: Infos = {}  # noqa: RUF012
    """The infos with the first observations of episodes that began in this step."""
    faults: Mapping[int, Exception] = {}
    """Lanes whose environment failed in this step, and has been made and reset anew.

    The step did not happen: its reward is 0, and it is marked truncated at the observation before.
    """
    void: Sequence[int] = ()
    """Lanes whose row is no transition and must not be learnt from: those with a fault, and those of a foreign vector
    environment that used up this step for a reset."""


@runtime_checkable
class VectorEnv(Protocol):
    """Lanes of single-agent environments. All is called from one thread.

    After `reset(seeds)` a lane's numbers depend on its seed and its actions alone, where `independent_lanes` is True:
    not on how many lanes there are, nor on which process they are in.
    """

    num_lanes: int
    observation_space: Space[Any]
    """Of one lane."""
    action_space: Space[Any]
    """Of one lane."""
    independent_lanes: bool
    """Whether a lane has a random generator of its own."""

    @property
    def reset_infos(self) -> Infos:
        """The infos of the first observations of the last `reset` or `reset_lane`."""
        ...

    def reset(self, seeds: Sequence[int | None]) -> Struct:
        """Begin a new episode in each lane, and return the first observations [lanes, ...].

        seeds: one for each lane. None: the lane's generator goes on as it is.
        Raises EnvError where an environment fails, SpaceError where an observation is not of its space.
        """
        ...

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane: a struct [lanes, ...] of the action space (see `spaces.nested`).

        Raises EnvError where an environment fails and lanes are not to be restarted alone.
        """
        ...

    def reset_lane(self, lane: int, seed: int | None = None) -> Struct:
        """Give up the episode of one lane, begin the next, and return its first observation."""
        ...

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the environment of each lane, in order of lanes.

        Environments that are one object for all lanes are passed once.
        """
        ...

    def render(self, lane: int = 0) -> Any:
        """Return what the environment of a lane draws: a picture [height, width, 3] of bytes, or what it returns."""
        ...

    def snapshot(self, lane: int) -> bytes:
        """Return the state of a lane, from which `restore` goes on bit by bit. Raises EnvError where there is none."""
        ...

    def restore(self, lane: int, snapshot: bytes) -> None:
        """Put a lane where it was when the snapshot was taken, here or in another process."""
        ...

    def close(self) -> None:
        """Let go of everything: processes, actors, windows. Calling it twice does nothing more."""
        ...


class MultiAgentStep(NamedTuple):
    """The results of one step of several copies of a multi-agent environment; each list has an item for each copy."""

    obs: list[dict[Any, Struct]]
    """Observations by agent: of those that act next. Where an episode ended, those of the next episode."""
    rewards: list[dict[Any, float]]
    """The rewards of the agents that got one in this step."""
    terminateds: list[dict[Any, bool]]
    """By agent, and "__all__"."""
    truncateds: list[dict[Any, bool]]
    """By agent, and "__all__"."""
    final_obs: Mapping[int, dict[Any, Struct]] = {}
    """By copy whose episode ended: the last observations of the agents that got one."""
    infos: Mapping[int, Mapping[Any, Any]] = {}
    """By copy, then by agent or "__common__"; copies that told nothing are left out."""
    reset_infos: Mapping[int, Mapping[Any, Any]] = {}
    faults: Mapping[int, Exception] = {}
    """Copies that failed and have begun anew; all their agents are marked truncated, and `final_obs` is what they saw
    last."""


class MultiAgentVectorEnv(Protocol):
    """Copies of a multi-agent environment, stepped together. As `VectorEnv`, with dicts by agent in place of arrays."""

    name: str
    """The environment's name in messages."""
    num_envs: int
    possible_agents: Sequence[Any]
    """All agents that are known beforehand; empty where the environment does not say."""

    @property
    def reset_infos(self) -> Mapping[int, Mapping[Any, Any]]:
        """The infos of the first observations of the last `reset` or `reset_env`."""
        ...

    def observation_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's observations. Raises EnvError where there is none for it."""
        ...

    def action_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's actions. Raises EnvError where there is none for it."""
        ...

    def reset(self, seeds: Sequence[int | None]) -> list[dict[Any, Struct]]:
        """Begin a new episode in each copy, and return the first observations by agent."""
        ...

    def step(self, actions: Sequence[Mapping[Any, Any] | None]) -> MultiAgentStep:
        """Do the actions of each copy's agents: of those that the last observations were for.

        A copy with None is not stepped; nothing is said of it.
        """
        ...

    def reset_env(self, index: int, seed: int | None = None) -> dict[Any, Struct]:
        """Give up the episode of one copy, begin the next, and return its first observations."""
        ...

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for each copy."""
        ...

    def render(self, index: int = 0) -> Any:
        """Return what a copy draws."""
        ...

    def snapshot(self, index: int) -> bytes:
        """Return the state of a copy."""
        ...

    def restore(self, index: int, snapshot: bytes) -> None:
        """Put a copy where it was when the snapshot was taken."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
