"""The loop of environments with several agents: everybody who has seen something acts, module by module.

An agent takes a lane when it first appears in an episode, and gives it back when its episode is over. Its policy is
asked for once then, and stays for the episode; policies and mapping are those with which the episode began (`casts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.callbacks.runner_views import RunnerPolicy
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.contract import MultiAgentStep, MultiAgentVectorEnv
from kernel_rllib.envs.multi_agent import ALL
from kernel_rllib.errors import EnvError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.agent_spaces import require_space
from kernel_rllib.runners.agent_steps import DONE, TERMINATED, TRUNCATED, VOID
from kernel_rllib.runners.casts import Cast, Casts, Lanes
from kernel_rllib.runners.contract import Collected
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.multi_agent_episode import MultiAgentEpisode
from kernel_rllib.runners.multi_agent_keeping import KeepsCopies
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.scripted_lanes import ScriptedLanes

_EPISODES = 1 << 32
"""So many episodes a copy can have before their numbers repeat."""


class MultiAgentSampler(KeepsCopies):
    """Steps copies of an environment with several agents; returns a fragment for each module."""

    def __init__(
        self,
        envs: MultiAgentVectorEnv,
        copies: Sequence[int],
        *,
        modules: Mapping[str, Lanes],
        policy_of: Callable[[Any, MultiAgentEpisode, Any], Any],
        worker: Any,
        seed: int,
        all_copies: int | None = None,
        incarnation: int = 0,
        steps_before: int = 0,
        complete_episodes: bool = False,
        observer: AgentCallbacks | None = None,
    ) -> None:
        """Take the environments and what acts in them, and reset them.

        Args:
            envs: As many copies as `copies` has numbers.
            copies: The number of each among all of the run.
            modules: What acts, by the ids of modules; parameters come in this order.
            policy_of: Returns the policy of an agent, given the agent, its episode and `worker`.
            worker: What is known of the runner.
            seed: The seed of the run.
            all_copies: How many copies the run has; None if these are all.
            incarnation: How many runners died before in the place of these: environments get other seeds then.
            steps_before: How many steps these copies have made before.
            complete_episodes: Whether samples are to be of whole episodes.
            observer: What calls the user's callbacks; None where there are none.
        """
        self.lanes: Array = np.asarray(copies, np.int64)
        self._casts = Casts(Cast(dict(modules), policy_of), len(self.lanes))
        self.observer = observer
        self._keeps_owners = False
        self._show_policies()
        self.complete_episodes = complete_episodes
        self.weights_version = -1
        self.place: RunnerPlace | None = None
        """The place of its runner, where a blueprint has made it."""
        self._envs, self._worker, self._seed = envs, worker, seed
        self._all_copies = all_copies or len(self.lanes)
        self._incarnation = incarnation
        self._steps = np.full(len(self.lanes), steps_before, np.int64)
        self._begun = [0] * len(self.lanes)
        self._episodes: list[MultiAgentEpisode] = []
        self._ended: list[EpisodeSummary] = []
        self._agent_steps = 0
        self._stops: int | None = None
        self._stopped: set[int] = set()
        self._is_torn = False
        self.begin(incarnation)

    @property
    def envs(self) -> MultiAgentVectorEnv:
        """The environments."""
        return self._envs

    def attach(self, runner: Any) -> None:
        """Show callbacks the runner that they are in."""
        if self.observer is not None:
            self.observer.attach(runner, self._envs, self._policies())

    @property
    def modules(self) -> Mapping[str, Lanes]:
        """What acts in episodes that begin now, by the ids of modules; parameters come in this order."""
        return self._casts.current.modules

    @property
    def episodes(self) -> list[MultiAgentEpisode]:
        """The episodes that go on now, one for each copy."""
        return list(self._episodes)

    def keep_owners(self) -> None:
        """Let fragments have the numbers of episodes, `eps_id`, and of agents in them, `agent_index`, from now on."""
        self._keeps_owners = True
        self._show_policies()

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters [size] from now on, those of all modules one after another; they are copied."""
        start = 0
        for lanes in self.modules.values():
            if isinstance(lanes, AgentLanes):
                lanes.vector[...] = vector[start : start + lanes.vector.size]
                start += lanes.vector.size
        self.weights_version = version

    def change_policies(
        self, modules: Mapping[str, Lanes], policy_of: Callable[[Any, MultiAgentEpisode, Any], Any]
    ) -> None:
        """Let these act in episodes that begin from now on.

        Episodes that are going on keep their policies and their mapping until they are over. What a policy does there
        that is not among these is not learned from.

        Args:
            modules: What acts, by the ids of modules; parameters come in this order.
            policy_of: Returns the policy of an agent, as in `__init__`.
        """
        self._casts.change(Cast(dict(modules), policy_of))
        self._show_policies()

    # -- samples ------------------------------------------------------------------------------------------------------

    def collect(self, steps: int) -> Collected:
        """Step each copy this many times; to the end of an episode, where samples are to be of whole ones.

        After an error in a sample, which left episodes as they were in the midst of a step, all copies begin anew.
        """
        before, agents_before = int(self._steps.sum()), self._agent_steps
        if self._is_torn:
            self._begin_all_anew()
        self._is_torn = True
        fragments = self.sample_episodes(steps) if self.complete_episodes else self.sample(steps)
        self._is_torn = False
        report = None
        if self.observer is not None:
            self.observer.sampled(fragments, keeps_owners=self._keeps_owners)
            report = self.observer.take()
        return Collected(fragments, int(self._steps.sum()) - before, self._agent_steps - agents_before, report)

    def sample(self, steps: int) -> dict[str, Fragment]:
        """Step all copies this many times, and return what happened, by module."""
        for _ in range(steps):
            self._step()
        return self._fragments()

    def sample_episodes(self, least: int) -> dict[str, Fragment]:
        """Begin anew in all copies, and return whole episodes only: of each as many as have `least` steps."""
        self._begin_all_anew()
        self._ends = self._steps + least
        self._stops, self._stopped = least, set()
        while len(self._stopped) < len(self.lanes):
            self._step()
        self._stops, self._stopped = None, set()
        return self._fragments()

    def begin(self, *occasion: int) -> None:
        """Begin new episodes in all copies; for the same occasion they are the same ones each time."""
        self._begin([(*occasion,)] * len(self.lanes))

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        ended, self._ended = self._ended, []
        return ended

    def take_learned(self) -> dict[str, Moments]:
        """Return what filters learned of each lane since this was last asked, by policy."""
        for _, lanes in self._casts.former:
            lanes.take_learned()
        return {name: found for lanes in self.modules.values() for name, found in lanes.take_learned().items()}

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let filters work with what they have learned of all lanes together, by policy."""
        for lanes in self.modules.values():
            lanes.set_statistics(statistics)

    def close(self) -> None:
        """Let go of the environments."""
        self._envs.close()

    # -- a step -------------------------------------------------------------------------------------------------------

    def _begin(self, occasions: Sequence[tuple[int, ...]]) -> None:
        self._casts.begin_all()
        for lanes in self.modules.values():
            lanes.forget()
        self._stops, self._stopped, self._is_torn = None, set(), False
        observed = self._envs.reset([self._seed_of(place, occasion) for place, occasion in enumerate(occasions)])
        self._episodes = [self._new_episode(place) for place in range(len(self.lanes))]
        for place, seen in enumerate(observed):
            self._start(place, seen, self._envs.reset_infos.get(place, {}))

    def _begin_all_anew(self) -> None:
        """Begin new episodes in all copies."""
        self._begin([(self._incarnation, steps) for steps in self._steps.tolist()])

    def _begin_anew(self, place: int) -> None:
        """Begin a new episode in one copy, whose agents have no lanes."""
        seed = self._seed_of(place, (self._incarnation, int(self._steps[place])))
        seen = self._envs.reset_env(place, seed)
        self._episodes[place] = self._new_episode(place)
        self._start(place, seen, self._envs.reset_infos.get(place, {}))

    def _start(self, place: int, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Let a new episode begin with what its first agents observe."""
        self._observe(place, seen, "reset")
        if self.observer is not None:
            self.observer.begin(place, self._episodes[place], seen, infos)

    def _seed_of(self, place: int, occasion: Sequence[int]) -> int:
        seed = np.random.SeedSequence((self._seed, int(self.lanes[place]), *occasion))
        return int(seed.generate_state(1)[0])

    def _new_episode(self, place: int) -> MultiAgentEpisode:
        self._casts.begin(place)
        number = int(self.lanes[place]) * _EPISODES + self._begun[place]
        self._begun[place] += 1
        return MultiAgentEpisode(number)

    def _step(self) -> None:
        going = len(self.lanes) - len(self._stopped)
        if self.observer is not None:
            self.observer.start_episodes()
        timestep = int(self._steps.mean() * self._all_copies)  # explorations count the steps of all copies
        actions: list[dict[Any, Any] | None] = [None if at in self._stopped else {} for at in range(len(self.lanes))]
        for lanes in self._casts.acting():
            for (place, agent), action in lanes.act(timestep):
                actions[place][agent] = action  # type: ignore[index]
                self._agent_steps += 1
        assert going
        for place, chosen in enumerate(actions):
            if chosen:
                actions[place] = self._casts.ordered(place, chosen, self._episodes[place].policies)
        step = self._envs.step(actions)
        for place in range(len(self.lanes)):
            if place not in self._stopped:
                self._take_in(place, step, actions[place] or {})
        if self.observer is not None:
            self.observer.start_episodes()

    def _take_in(self, place: int, step: MultiAgentStep, actions: Mapping[Any, Any]) -> None:
        """Write what a step gave to the agents of one copy, and let the next episode begin where this one is over."""
        episode = self._episodes[place]
        self._steps[place] += 1
        if place in step.faults:
            for agent in list(episode.live):
                self._end(place, agent, VOID, None)
            return self._next_episode(place, step)
        episode.length += 1
        for agent, reward in step.rewards[place].items():
            self._reward(place, agent, reward)
        terminateds, truncateds = step.terminateds[place], step.truncateds[place]
        over = terminateds[ALL] or truncateds[ALL]
        final = step.final_obs.get(place, {})
        seen = {} if over else step.obs[place]
        if not over:  # with the last step, environments may show everybody once more
            self._require_present(episode, (*seen, *final))
        for agent in list(episode.live):
            if terminateds.get(agent):
                self._end(place, agent, TERMINATED, final.get(agent))
            elif truncateds.get(agent):
                self._end(place, agent, TRUNCATED, final.get(agent))
        if not over:
            self._observe(place, seen, "step")
        if self.observer is not None:
            self.observer.step(place, actions, {**seen, **final}, step.rewards[place], step.infos.get(place, {}))
            ends = {"terminated": terminateds[ALL], "truncated": truncateds[ALL]}
            self.observer.stepped(place, int(self._steps[place]), **ends)
        if over:
            made, copy = int(self._steps[place]), int(self.lanes[place])
            self._ended.append(EpisodeSummary(made, copy, episode.total_reward, episode.length, episode.by_agent()))
            return self._next_episode(place, step)
        if not episode.live:
            raise EnvError(
                f"{self._name}.step() ended the last agent of the episode after {episode.length} steps, and said "
                'nothing of "__all__": return terminateds["__all__"] = True where nobody is left'
            )
        return None

    def _next_episode(self, place: int, step: MultiAgentStep) -> None:
        if self._stops is not None and place not in step.faults and self._steps[place] >= self._ends[place]:
            self._stopped.add(place)
            return
        self._episodes[place] = self._new_episode(place)
        self._start(place, step.obs[place], step.reset_infos.get(place, {}))

    def _observe(self, place: int, seen: Mapping[Any, Any], method: str) -> None:
        """Let the agents act next that have seen something; those that are new get a policy and a lane."""
        episode = self._episodes[place]
        for agent, observed in seen.items():
            position = episode.live.get(agent)
            if position is None:
                lanes, position = self._enter(place, episode, agent, method)
            else:
                lanes = self._lanes_of(place, agent)
                lanes.end(position, DONE, None)
            lanes.observe(position, observed)

    def _enter(self, place: int, episode: MultiAgentEpisode, agent: Any, method: str) -> tuple[Lanes, int]:
        policy, cast = episode.policies.get(agent), self._casts[place]
        if policy is None:
            policy = cast.policy_of(agent, episode, self._worker)
            if policy not in cast.modules:
                raise UnknownPolicyError(
                    f"policy_mapping_fn returned {policy!r} for agent {agent!r}, and there is no policy of that id"
                    f"{did_you_mean(str(policy), cast.modules)}; there are {', '.join(cast.modules)}: return one of "
                    "them, or name it in multi_agent(policies=...)"
                )
            require_space(self._envs, self._name, method, agent, policy, cast.modules[policy].policy)
            episode.policies[agent] = policy
        lanes = cast.modules[policy]
        position = episode.live[agent] = lanes.take(int(self.lanes[place]), place, agent)
        lanes.own(position, episode.episode_id, list(episode.policies).index(agent))
        lanes.early(position, episode.early.pop(agent, 0.0))
        return lanes, position

    def _lanes_of(self, place: int, agent: Any) -> Lanes:
        """Return the lanes of the policy of an agent that is or was in the episode of a copy."""
        return self._casts[place].modules[self._episodes[place].policies[agent]]

    def _end(self, place: int, agent: Any, fate: int, final: Any) -> None:
        episode, lanes = self._episodes[place], self._lanes_of(place, agent)
        position = episode.live.pop(agent)
        lanes.end(position, fate, final)
        lanes.give_back(position)
        episode.ended.add(agent)

    def _reward(self, place: int, agent: Any, reward: float) -> None:
        """Add a reward to the step that an agent is in; of one who has left, it counts in the episode only."""
        episode = self._episodes[place]
        episode.rewards[agent] = episode.rewards.get(agent, 0.0) + reward
        position = episode.live.get(agent)
        if position is not None:
            self._lanes_of(place, agent).reward(position, reward)
        elif agent not in episode.ended:
            episode.early[agent] = episode.early.get(agent, 0.0) + reward

    def _require_present(self, episode: MultiAgentEpisode, agents: Sequence[Any]) -> None:
        for agent in agents:
            if agent in episode.ended:
                raise EnvError(
                    f"{self._name}.step() returned an observation for agent {agent!r}, which ended in an earlier step "
                    f"of the episode (this is step {episode.length}): leave it out, or let an agent that comes back "
                    "have another name"
                )

    def _policies(self) -> dict[str, Any]:
        """Return what callbacks know as the policies of this runner."""
        return {
            module_id: lanes.object
            if isinstance(lanes, ScriptedLanes)
            else RunnerPolicy(lanes.module, lanes.vector, lanes.policy.observation_space, lanes.policy.action_space)
            for module_id, lanes in self.modules.items()
        }

    def _show_policies(self) -> None:
        """Let callbacks know the policies, and their steps the numbers that callbacks need."""
        if self.observer is not None:
            self.observer.show_policies(self._policies())
        for lanes in self._casts.acting():
            if isinstance(lanes, AgentLanes) and (self._keeps_owners or self.observer is not None):
                lanes.records_owners = True

    @property
    def _name(self) -> str:
        return str(getattr(self._envs, "name", type(self._envs).__name__))

    def _fragments(self) -> dict[str, Fragment]:
        for _, lanes in self._casts.former:  # nobody learns from these steps
            lanes.fragment(self.weights_version)
        made = {module_id: lanes.fragment(self.weights_version) for module_id, lanes in self.modules.items()}
        return {module_id: fragment for module_id, fragment in made.items() if fragment is not None}
