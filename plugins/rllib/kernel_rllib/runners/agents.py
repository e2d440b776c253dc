"""The agents in the episodes of a runner: whose policy acts for each, in which lane, and what each has earned.

An agent takes a lane when it first appears in an episode, and gives it back when its episode is over. Its policy is
asked for once then, and stays for the episode; policies and mapping are those with which the episode began (`casts`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.callbacks.runner_views import RunnerPolicy
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import EnvError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.agent_spaces import AgentSpaces, require_space
from kernel_rllib.runners.agent_steps import DONE
from kernel_rllib.runners.casts import Cast, Casts, Lanes, PolicyOf
from kernel_rllib.runners.logged_steps import Done
from kernel_rllib.runners.multi_agent_episode import MultiAgentEpisode
from kernel_rllib.runners.scripted_lanes import ScriptedLanes


class Agents:
    """Lets the policies of a runner act for the agents of its episodes. An episode has a place among them."""

    def __init__(
        self,
        envs: AgentSpaces,
        copies: Array,
        *,
        modules: Mapping[str, Lanes],
        policy_of: PolicyOf,
        worker: Any,
        observer: AgentCallbacks | None = None,
    ) -> None:
        """Begin without episodes.

        Args:
            envs: The environments.
            copies: The number of each place among those of all runners.
            modules: The lanes of each module, by module id; parameters come in this order.
            policy_of: Returns the policy of an agent, given the agent, its episode and `worker`.
            worker: The context of the runner, which `policy_of` is given as `worker`.
            observer: The object that calls the user's callbacks; None without callbacks.
        """
        self.casts = Casts(Cast(dict(modules), policy_of), len(copies))
        self.episodes: dict[int, MultiAgentEpisode] = {}
        """The episodes that go on now, by their places."""
        self.name = str(getattr(envs, "name", type(envs).__name__))
        """The environment's name in messages."""
        self._envs, self._copies, self._worker = envs, copies, worker
        self._observer = observer
        self.keeps_owners = False
        """Whether fragments have the numbers of episodes and of agents in them."""
        self.show_policies()

    @property
    def modules(self) -> Mapping[str, Lanes]:
        """The modules that act in episodes that begin now, by their ids; parameters come in this order."""
        return self.casts.current.modules

    # -- policies -----------------------------------------------------------------------------------------------------

    def set_weights(self, vector: Array) -> None:
        """Act with these parameters [size] from now on, those of all modules one after another; they are copied."""
        start = 0
        for lanes in self.modules.values():
            if isinstance(lanes, AgentLanes):
                lanes.vector[...] = vector[start : start + lanes.vector.size]
                start += lanes.vector.size

    def change(self, cast: Cast) -> None:
        """Let this cast act in episodes that begin from now on; see `Casts`."""
        self.casts.change(cast)
        self.show_policies()

    def keep_owners(self) -> None:
        """Let fragments have the numbers of episodes, `eps_id`, and of agents in them, `agent_index`, from now on."""
        self.keeps_owners = True
        self.show_policies()

    def policies(self) -> dict[str, Any]:
        """Return what callbacks know as the policies of this runner."""
        return {
            module_id: lanes.object
            if isinstance(lanes, ScriptedLanes)
            else RunnerPolicy(lanes.module, lanes.vector, lanes.policy.observation_space, lanes.policy.action_space)
            for module_id, lanes in self.modules.items()
        }

    def show_policies(self) -> None:
        """Let callbacks know the policies, and their steps the numbers that callbacks need."""
        if self._observer is not None:
            self._observer.show_policies(self.policies())
        for lanes in self.casts.acting():
            if isinstance(lanes, AgentLanes) and (self.keeps_owners or self._observer is not None):
                lanes.records_owners = True

    # -- episodes -----------------------------------------------------------------------------------------------------

    def begin(self, place: int, episode: MultiAgentEpisode) -> None:
        """Let an episode begin at a place, with the policies of now."""
        self.casts.begin(place)
        self.episodes[place] = episode

    def admit(self, place: int, agents: Iterable[Any], method: str) -> None:
        """Give each agent that is new in its episode a policy. Where one gets none, nothing has changed.

        Args:
            place: That of their episode.
            agents: The agents, new or not.
            method: The method of the environment that has named them, for messages.

        Raises:
            UnknownPolicyError: If the mapping names a policy that is not there.
            SpaceError: If the policy of a new agent is made for other spaces.
        """
        episode, cast = self.episodes[place], self.casts[place]
        given: list[Any] = []
        try:
            for agent in agents:
                if agent not in episode.policies:
                    episode.policies[agent] = self._policy_for(agent, episode, cast, method)
                    given.append(agent)
        except Exception:  # The mapping is code of users.
            for agent in given:
                del episode.policies[agent]
            raise

    def observe(self, place: int, seen: Mapping[Any, Any], method: str, done: Mapping[Any, Done] | None = None) -> None:
        """Let the agents act next that have seen something; those that are new get a policy and a lane.

        Args:
            place: The place of their episode.
            seen: The observations, by agent.
            method: The method of the environment that has shown it, for messages.
            done: The actions that agents have taken themselves, by agent; None if their policies choose.

        Raises as `admit` does.
        """
        self.admit(place, seen, method)
        episode = self.episodes[place]
        for agent, observed in seen.items():
            position, lanes = episode.live.get(agent), self.lanes_of(place, agent)
            if position is None:
                position = self._enter(place, episode, agent, lanes)
            else:
                lanes.end(position, DONE, None)
            lanes.observe(position, observed, None if done is None else done[agent])

    def act(self, timestep: int) -> dict[int, dict[Any, Any]]:
        """Choose for all agents that see something; return the actions of each place, by agent.

        Args:
            timestep: The number of steps that all copies of the environment have made; explorations go by it.
        """
        actions: dict[int, dict[Any, Any]] = {}
        for lanes in self.casts.acting():
            for (place, agent), action in lanes.act(timestep):
                actions.setdefault(place, {})[agent] = action
        return {
            place: self.casts.ordered(place, chosen, self.episodes[place].policies) for place, chosen in actions.items()
        }

    def reward(self, place: int, agent: Any, reward: float) -> None:
        """Add a reward to the step that an agent is in; of one who has left, it counts in the episode only."""
        episode = self.episodes[place]
        episode.rewards[agent] = episode.rewards.get(agent, 0.0) + reward
        position = episode.live.get(agent)
        if position is not None:
            self.lanes_of(place, agent).reward(position, reward)
        elif agent not in episode.ended:
            episode.early[agent] = episode.early.get(agent, 0.0) + reward

    def end(self, place: int, agent: Any, fate: int, final: Any) -> None:
        """Let an agent leave its episode; see `AgentSteps.end`."""
        episode, lanes = self.episodes[place], self.lanes_of(place, agent)
        position = episode.live.pop(agent)
        lanes.end(position, fate, final)
        lanes.give_back(position)
        episode.ended.add(agent)

    def lanes_of(self, place: int, agent: Any) -> Lanes:
        """Return the lanes of the policy of an agent that is or was in the episode of a place."""
        return self.casts[place].modules[self.episodes[place].policies[agent]]

    def _policy_for(self, agent: Any, episode: MultiAgentEpisode, cast: Cast, method: str) -> str:
        policy = cast.policy_of(agent, episode, self._worker)
        if policy not in cast.modules:
            raise UnknownPolicyError(
                f"policy_mapping_fn returned {policy!r} for agent {agent!r}, and there is no policy of that id"
                f"{did_you_mean(str(policy), cast.modules)}; there are {', '.join(cast.modules)}: return one of "
                "them, or name it in multi_agent(policies=...)"
            )
        require_space(self._envs, self.name, method, agent, policy, cast.modules[policy].policy)
        return str(policy)

    def _enter(self, place: int, episode: MultiAgentEpisode, agent: Any, lanes: Lanes) -> int:
        """Return the position of a lane that is an agent's from now on."""
        position = episode.live[agent] = lanes.take(int(self._copies[place]), place, agent)
        lanes.own(position, episode.episode_id, list(episode.policies).index(agent))
        lanes.early(position, episode.early.pop(agent, 0.0))
        return position

    # -- what was done ------------------------------------------------------------------------------------------------

    def fragments(self, version: int) -> dict[str, Fragment]:
        """Return the steps that are over since this was last asked, by module.

        Args:
            version: The version of the weights that chose the actions.
        """
        for _, lanes in self.casts.former:  # No policy learns from these steps.
            lanes.fragment(version)
        made = {module_id: lanes.fragment(version) for module_id, lanes in self.modules.items()}
        return {module_id: fragment for module_id, fragment in made.items() if fragment is not None}

    def take_learned(self) -> dict[str, Moments]:
        """Return what filters learned of each lane since this was last asked, by policy."""
        for _, lanes in self.casts.former:
            lanes.take_learned()
        return {name: found for lanes in self.modules.values() for name, found in lanes.take_learned().items()}

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let filters work with what they have learned of all lanes together, by policy."""
        for lanes in self.modules.values():
            lanes.set_statistics(statistics)


def no_policy_found(called: str, episode_id: str, agents: Sequence[Any], error: Exception) -> EnvError:
    """Return the error of a call that has named new agents for one of which no policy was found.

    Args:
        called: The class and the method.
        episode_id: The episode of the call.
        agents: The new agents.
        error: The error that was raised when a policy was looked for.
    """
    said = EnvError(
        f"{called} of the episode {episode_id!r} has the new agents {', '.join(map(repr, agents))}, and no policy was "
        f"found for them: {type(error).__name__}: {error}. The episode is abandoned: name agents that "
        "policy_mapping_fn knows, or let it return the id of a policy for each"
    )
    said.__cause__ = error
    return said
