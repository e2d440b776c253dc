"""Environments that ask for actions, instead of being stepped: simulators and services with a control of their own.

`run()` begins and ends episodes as it likes, several at a time if it likes, and asks for actions or says which ones it
has taken. It runs in a thread of its own, beside the sampler that acts for it.
"""

from __future__ import annotations

import math
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.envs.external_calls import ActionsTaken, EpisodeCalls
from kernel_rllib.envs.multi_agent import agent_space, is_multi_agent
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.encode import Encoder
from kernel_rllib.spaces.nested import Struct, has_nan

AGENT = "agent0"
"""The name of the agent of an `ExternalEnv`."""
MOST_EPISODES = 100


class ActingPolicy:
    """The policy that acts in external episodes. The thread of the sampler writes it; any thread may read it.

    Attributes:
        get_policy: Returns the policy, where that is in this process; None elsewhere.
        output_shapes: The shapes of the outputs of its module that steps keep, by name; None where several act.
    """

    def __init__(self) -> None:
        """Begin without weights."""
        self.get_policy: Callable[[], Any] | None = None
        self.output_shapes: Mapping[str, tuple[int, ...]] | None = None
        self._weights: tuple[int, int, Any] = (-1, 0, None)
        self._statistics: Mapping[str, Moments] = {}

    def weights_changed(self, version: int, timestep: int, vector: Array) -> None:
        """Hear that these parameters [size] act from now on, after so many steps of all runners."""
        self._weights = version, timestep, vector.copy()

    def statistics_changed(self, statistics: Mapping[str, Moments]) -> None:
        """Hear what filters work with from now on, by name."""
        self._statistics = dict(statistics)

    @property
    def now(self) -> tuple[int, int, Array, Mapping[str, Moments]]:
        """The version of the parameters, the number of steps, the parameters [size], and what filters work with."""
        return *self._weights, self._statistics


class ExternalMultiAgentEnv:
    """Derive from it, define `run`, and call `super().__init__(action_space, observation_space)`.

    Spaces are those of each agent; or set `observation_spaces` and `action_spaces`, dicts by agent. All methods but
    `run` may be called from any thread, for one episode from one at a time.
    """

    observation_spaces: Mapping[Any, Space[Any]] | None = None
    action_spaces: Mapping[Any, Space[Any]] | None = None

    def __init__(
        self, action_space: Space[Any] | None, observation_space: Space[Any] | None, max_concurrent: int = MOST_EPISODES
    ) -> None:
        """Begin without episodes.

        Args:
            action_space: The space of the agents' actions.
            observation_space: The space of their observations.
            max_concurrent: The largest number of episodes that are open at a time.
        """
        self.action_space, self.observation_space = action_space, observation_space
        self.max_concurrent = max_concurrent
        self.calls = EpisodeCalls(type(self).__name__, max_concurrent)
        """The calls of episodes, which the sampler takes."""
        self.acting = ActingPolicy()
        """The policy that acts for the episodes, for who wants to act by it elsewhere."""
        self._encoders: dict[tuple[str, Any], Encoder] = {}

    def run(self) -> None:
        """Run the program: begin episodes, ask for actions, end episodes, for as long as it may be learned from.

        When it returns, nothing is sampled any more.
        """
        raise NotImplementedError(f"{type(self).__name__} has no run(): define it, beginning episodes for ever")

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Begin an episode, and return its id.

        Args:
            episode_id: The id; None for a new one.
            training_enabled: Whether its steps are learned from.

        Raises:
            EpisodeError: If it is open already, or more are than may be.
        """
        given = uuid.uuid4().hex if episode_id is None else episode_id
        self.calls.start(given, bool(training_enabled))
        return given

    def get_action(self, episode_id: str, observation_dict: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the actions of the agents that see something, by agent.

        Raises:
            EpisodeError: If the episode is not open.
            SpaceError: If an observation is not of its space.
        """
        return dict(self.calls.wait_for_actions(episode_id, self._seen(observation_dict, "get_action")))

    def log_action(
        self,
        episode_id: str,
        observation_dict: Mapping[Any, Any],
        action_dict: Mapping[Any, Any],
        outputs_dict: Mapping[Any, Mapping[str, Any]] | None = None,
    ) -> None:
        """Say what agents saw and did, whatever their policies would have done. Raises as `get_action` does.

        Args:
            episode_id: The id of the episode.
            observation_dict: The observations, by agent.
            action_dict: The actions that were taken, by agent.
            outputs_dict: The outputs of each agent's module where it acted, such as "action_dist_inputs", if that was
                elsewhere; None: it counts as if the module of now had been asked, and the action taken all the same.
        """
        seen = self._seen(observation_dict, "log_action")
        missing = [agent for agent in seen if agent not in action_dict]
        if missing or len(action_dict) > len(seen):
            raise EnvError(
                f"{type(self).__name__}.log_action() got observations of {list(seen)} and actions of "
                f"{list(action_dict)}: give one of each for the same agents"
            )
        actions = {agent: self._encoded("action", agent, action_dict[agent], "log_action") for agent in seen}
        outputs = None if outputs_dict is None else {agent: self._outputs(agent, outputs_dict) for agent in seen}
        self.calls.log_actions(ActionsTaken(episode_id, seen, actions, outputs))

    def log_returns(
        self, episode_id: str, reward_dict: Mapping[Any, float], info_dict: Mapping[Any, Any] | None = None
    ) -> None:
        """Add rewards to what agents' last actions have brought; what is never logged is 0.

        Raises:
            EpisodeError: If the episode is not open.
            EnvError: If a reward is no number.
        """
        rewards = {agent: self._reward(agent, reward) for agent, reward in self._by_agent(reward_dict, "rewards")}
        self.calls.reward(episode_id, rewards, dict(info_dict or {}))

    def end_episode(self, episode_id: str, observation_dict: Mapping[Any, Any]) -> None:
        """End an episode with what agents see last. Raises as `get_action` does."""
        self.calls.end(episode_id, self._seen(observation_dict, "end_episode"))

    def _by_agent(self, given: Any, what: str) -> Iterable[tuple[Any, Any]]:
        if not isinstance(given, Mapping):
            raise EnvError(f"{type(self).__name__} got {given!r} as {what}: give a dict of them by agent")
        return given.items()

    def _reward(self, agent: Any, reward: Any) -> float:
        try:
            number = float(reward)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise EnvError(
                f"{type(self).__name__}.log_returns() got {reward!r} as the reward of agent {agent!r}: give a number"
            )
        return number

    def _outputs(self, agent: Any, given: Any) -> dict[str, Array]:
        """Return what a module put out elsewhere for an agent. Raises EnvError unless it is as the policy's here."""
        shapes = self.acting.output_shapes
        if shapes is None:
            raise EnvError(
                f"{type(self).__name__}.log_action() got outputs, and several policies act, or none: leave them out"
            )
        outputs = dict(self._by_agent(given, "outputs")).get(agent)
        found: dict[str, Array] = {}
        for name, shape in shapes.items():
            value = outputs.get(name) if isinstance(outputs, Mapping) else None
            try:
                found[name] = np.asarray(value, np.float32)
            except (TypeError, ValueError):
                found[name] = np.float32(math.nan)
            if found[name].shape != shape or np.isnan(found[name]).any():
                raise EnvError(
                    f"{type(self).__name__}.log_action() got {value!r} as the output {name!r} of agent {agent!r}, but "
                    f"the policy puts out numbers of shape {list(shape)}: log it as that did, or leave all outputs out"
                )
        return found

    def _seen(self, observations: Mapping[Any, Any], method: str) -> dict[Any, Struct]:
        given = self._by_agent(observations, f"observations of {method}()")
        return {agent: self._encoded("observation", agent, value, method) for agent, value in given}

    def _encoded(self, what: str, agent: Any, value: Any, method: str) -> Struct:
        encoder = self._encoders.get((what, agent))
        if encoder is None:
            space = agent_space(self, f"{what}_space", agent)
            title = what if agent == AGENT else f"{what} of agent {agent!r}"
            encoder = Encoder(space, type(self).__name__, title, f"{what}_space", verb="got")
            self._encoders[what, agent] = encoder
        row = encoder.one(value, method)
        if has_nan(row):
            raise EnvError(f"{type(self).__name__}.{method}() got NaN in the {what} of agent {agent!r}: {row}")
        return row


class ExternalEnv(ExternalMultiAgentEnv):
    """As `ExternalMultiAgentEnv`, with one agent in each episode: observations, actions and rewards are single ones."""

    def get_action(self, episode_id: str, observation: Any) -> Any:  # type: ignore[override]
        """Return the action for what is observed. Raises as that of several agents does."""
        return super().get_action(episode_id, {AGENT: observation})[AGENT]

    def log_action(  # type: ignore[override]
        self, episode_id: str, observation: Any, action: Any, outputs: Mapping[str, Any] | None = None
    ) -> None:
        """Say what was observed and done, whatever the policy would have done."""
        super().log_action(
            episode_id, {AGENT: observation}, {AGENT: action}, None if outputs is None else {AGENT: outputs}
        )

    def log_returns(self, episode_id: str, reward: float, info: Any = None) -> None:  # type: ignore[override]
        """Add a reward to what the last action has brought; what is never logged is 0."""
        super().log_returns(episode_id, {AGENT: reward}, {} if info is None else {AGENT: info})

    def end_episode(self, episode_id: str, observation: Any) -> None:  # type: ignore[override]
        """End an episode with what is observed last."""
        super().end_episode(episode_id, {AGENT: observation})


def is_external(env: Any) -> bool:
    """Return whether an environment asks for actions, instead of being stepped."""
    return isinstance(env, ExternalMultiAgentEnv)


def has_several_agents(env: Any) -> bool:
    """Return whether an environment has several agents, external or not."""
    return (is_external(env) and not isinstance(env, ExternalEnv)) or is_multi_agent(env)


class ExternalLanes:
    """An external environment in the place of lanes: its episodes begin and end without being stepped."""

    num_envs = 1

    def __init__(self, env: ExternalMultiAgentEnv) -> None:
        """Take the environment; `run` begins with the first `take`.

        Raises:
            EnvError: If its class has not called `super().__init__`.
        """
        self.env, self.name = env, type(env).__name__
        if not hasattr(env, "calls"):
            raise EnvError(
                f"{self.name}.__init__() has not called super().__init__(action_space, observation_space): let it"
            )
        self._thread: threading.Thread | None = None

    @property
    def calls(self) -> EpisodeCalls:
        """The calls of the program."""
        return self.env.calls

    def observation_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's observations."""
        return agent_space(self.env, "observation_space", agent)

    def action_space_of(self, agent: Any) -> Space[Any]:
        """Return the space of an agent's actions."""
        return agent_space(self.env, "action_space", agent)

    def begin(self) -> None:
        """Let the program run, if it does not yet."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"{self.name}.run", daemon=True)
            self._thread.start()

    def foreach(self, function: Callable[[Any], Any]) -> list[Any]:
        """Return what a function returns for the environment."""
        return [function(self.env)]

    def close(self) -> None:
        """Let the program's calls fail, and close the environment."""
        self.calls.fail(EnvError(f"{self.name}: what acted for its episodes was stopped, and they get no more actions"))
        close = getattr(self.env, "close", None)
        if close is not None:
            close()

    def _run(self) -> None:
        try:
            self.env.run()
        except Exception as error:
            said = EnvError(f"{self.name}.run() raised {type(error).__name__}: {error}")
            said.__cause__ = error
            self.calls.fail(said)
            return
        self.calls.fail(
            EnvError(
                f"{self.name}.run() has returned, so nothing asks for actions any more: let it begin episodes for as "
                "long as it may be learned from"
            )
        )
