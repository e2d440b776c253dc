"""The loop of environments with several agents: everybody who has seen something acts, module by module.

Who is in which lane, and acts by which policy, is the business of `Agents`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.contract import MultiAgentStep, MultiAgentVectorEnv
from kernel_rllib.envs.multi_agent import ALL
from kernel_rllib.errors import EnvError
from kernel_rllib.runners.agent_steps import TERMINATED, TRUNCATED, VOID
from kernel_rllib.runners.agents import Agents
from kernel_rllib.runners.casts import Cast, Lanes
from kernel_rllib.runners.contract import Collected
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.multi_agent_episode import EPISODES, MultiAgentEpisode
from kernel_rllib.runners.multi_agent_keeping import KeepsCopies
from kernel_rllib.runners.place import RunnerPlace


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
        """Take the environments and the modules that act in them, and reset the environments.

        Args:
            envs: The environments, as many as `copies` has numbers.
            copies: The number of each among all of the run.
            modules: The lanes of each module, by module id; parameters come in this order.
            policy_of: Returns the policy of an agent, given the agent, its episode and `worker`.
            worker: The context of the runner, which `policy_of` is given as `worker`.
            seed: The seed of the run.
            all_copies: The number of copies of the run; None if these are all.
            incarnation: The number of runners that died in this place before; environments get other seeds then.
            steps_before: The number of steps that these copies have made before.
            complete_episodes: Whether samples are to be of whole episodes.
            observer: The object that calls the user's callbacks; None without callbacks.
        """
        self.lanes: Array = np.asarray(copies, np.int64)
        self.observer = observer
        self._agents = Agents(envs, self.lanes, modules=modules, policy_of=policy_of, worker=worker, observer=observer)
        self.complete_episodes = complete_episodes
        self.weights_version = -1
        self.place: RunnerPlace | None = None
        """The place of its runner, where a blueprint has made it."""
        self._envs, self._seed = envs, seed
        self._all_copies = all_copies or len(self.lanes)
        self._incarnation = incarnation
        self._steps = np.full(len(self.lanes), steps_before, np.int64)
        self._begun = [0] * len(self.lanes)
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
            self.observer.attach(runner, self._envs, self._agents.policies())

    @property
    def modules(self) -> Mapping[str, Lanes]:
        """The modules that act in episodes that begin now, by their ids; parameters come in this order."""
        return self._agents.modules

    @property
    def episodes(self) -> list[MultiAgentEpisode]:
        """The episodes that go on now, one for each copy."""
        return [self._agents.episodes[place] for place in range(len(self.lanes))]

    def keep_owners(self) -> None:
        """Let fragments have the numbers of episodes, `eps_id`, and of agents in them, `agent_index`, from now on."""
        self._agents.keep_owners()

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters [size] from now on, those of all modules one after another; they are copied."""
        self._agents.set_weights(vector)
        self.weights_version = version

    def change_policies(
        self, modules: Mapping[str, Lanes], policy_of: Callable[[Any, MultiAgentEpisode, Any], Any]
    ) -> None:
        """Let these act in episodes that begin from now on.

        Episodes that are going on keep their policies and their mapping until they are over. What a policy does there
        that is not among these is not learned from.

        Args:
            modules: The lanes of each module, by module id; parameters come in this order.
            policy_of: Returns the policy of an agent, as in `__init__`.
        """
        self._agents.change(Cast(dict(modules), policy_of))

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
            self.observer.sampled(fragments, keeps_owners=self._agents.keeps_owners)
            report = self.observer.take()
        return Collected(fragments, int(self._steps.sum()) - before, self._agent_steps - agents_before, report)

    def sample(self, steps: int) -> dict[str, Fragment]:
        """Step all copies this many times, and return what happened, by module."""
        for _ in range(steps):
            self._step()
        return self._agents.fragments(self.weights_version)

    def sample_episodes(self, least: int) -> dict[str, Fragment]:
        """Begin anew in all copies, and return whole episodes only: of each as many as have `least` steps."""
        self._begin_all_anew()
        self._ends = self._steps + least
        self._stops, self._stopped = least, set()
        while len(self._stopped) < len(self.lanes):
            self._step()
        self._stops, self._stopped = None, set()
        return self._agents.fragments(self.weights_version)

    def begin(self, *occasion: int) -> None:
        """Begin new episodes in all copies; for the same occasion they are the same ones each time."""
        self._begin([(*occasion,)] * len(self.lanes))

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        ended, self._ended = self._ended, []
        return ended

    def take_learned(self) -> dict[str, Moments]:
        """Return what filters learned of each lane since this was last asked, by policy."""
        return self._agents.take_learned()

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let filters work with what they have learned of all lanes together, by policy."""
        self._agents.set_statistics(statistics)

    def close(self) -> None:
        """Let go of the environments."""
        self._envs.close()

    # -- a step -------------------------------------------------------------------------------------------------------

    def _begin(self, occasions: Sequence[tuple[int, ...]]) -> None:
        self._agents.casts.begin_all()
        for lanes in self.modules.values():
            lanes.forget()
        self._stops, self._stopped, self._is_torn = None, set(), False
        observed = self._envs.reset([self._seed_of(place, occasion) for place, occasion in enumerate(occasions)])
        for place in range(len(self.lanes)):
            self._new_episode(place)
        for place, seen in enumerate(observed):
            self._start(place, seen, self._envs.reset_infos.get(place, {}))

    def _begin_all_anew(self) -> None:
        """Begin new episodes in all copies."""
        self._begin([(self._incarnation, steps) for steps in self._steps.tolist()])

    def _begin_anew(self, place: int) -> None:
        """Begin a new episode in one copy, whose agents have no lanes."""
        seed = self._seed_of(place, (self._incarnation, int(self._steps[place])))
        seen = self._envs.reset_env(place, seed)
        self._new_episode(place)
        self._start(place, seen, self._envs.reset_infos.get(place, {}))

    def _start(self, place: int, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Let a new episode begin with what its first agents observe."""
        self._agents.observe(place, seen, "reset")
        if self.observer is not None:
            self.observer.begin(place, self._agents.episodes[place], seen, infos)

    def _seed_of(self, place: int, occasion: Sequence[int]) -> int:
        seed = np.random.SeedSequence((self._seed, int(self.lanes[place]), *occasion))
        return int(seed.generate_state(1)[0])

    def _new_episode(self, place: int) -> None:
        number = int(self.lanes[place]) * EPISODES + self._begun[place]
        self._begun[place] += 1
        self._agents.begin(place, MultiAgentEpisode(number))

    def _step(self) -> None:
        assert len(self._stopped) < len(self.lanes)
        if self.observer is not None:
            self.observer.start_episodes()
        timestep = int(self._steps.mean() * self._all_copies)  # explorations count the steps of all copies
        chosen = self._agents.act(timestep)
        self._agent_steps += sum(map(len, chosen.values()))
        actions = [None if at in self._stopped else chosen.get(at, {}) for at in range(len(self.lanes))]
        step = self._envs.step(actions)
        for place in range(len(self.lanes)):
            if place not in self._stopped:
                self._take_in(place, step, actions[place] or {})
        if self.observer is not None:
            self.observer.start_episodes()

    def _take_in(self, place: int, step: MultiAgentStep, actions: Mapping[Any, Any]) -> None:
        """Write what a step gave to the agents of one copy, and let the next episode begin where this one is over."""
        episode = self._agents.episodes[place]
        self._steps[place] += 1
        if place in step.faults:
            for agent in list(episode.live):
                self._agents.end(place, agent, VOID, None)
            return self._next_episode(place, step)
        episode.length += 1
        for agent, reward in step.rewards[place].items():
            self._agents.reward(place, agent, reward)
        terminateds, truncateds = step.terminateds[place], step.truncateds[place]
        over = terminateds[ALL] or truncateds[ALL]
        final = step.final_obs.get(place, {})
        seen = {} if over else step.obs[place]
        if not over:  # With the last step, environments may return all agents once more.
            self._require_present(episode, (*seen, *final))
        for agent in list(episode.live):
            if terminateds.get(agent):
                self._agents.end(place, agent, TERMINATED, final.get(agent))
            elif truncateds.get(agent):
                self._agents.end(place, agent, TRUNCATED, final.get(agent))
        if not over:
            self._agents.observe(place, seen, "step")
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
                f"{self._agents.name}.step() ended the last agent of the episode after {episode.length} steps, and "
                'said nothing of "__all__": return terminateds["__all__"] = True where nobody is left'
            )
        return None

    def _next_episode(self, place: int, step: MultiAgentStep) -> None:
        if self._stops is not None and place not in step.faults and self._steps[place] >= self._ends[place]:
            self._stopped.add(place)
            return
        self._new_episode(place)
        self._start(place, step.obs[place], step.reset_infos.get(place, {}))

    def _require_present(self, episode: MultiAgentEpisode, agents: Sequence[Any]) -> None:
        for agent in agents:
            if agent in episode.ended:
                raise EnvError(
                    f"{self._agents.name}.step() returned an observation for agent {agent!r}, which ended in an "
                    f"earlier step of the episode (this is step {episode.length}): leave it out, or let an agent that "
                    "comes back have another name"
                )
