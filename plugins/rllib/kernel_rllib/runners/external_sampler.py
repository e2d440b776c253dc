"""The loop of an external environment: it answers who asks for actions, and writes down what programs say of episodes.

Nothing is stepped here. Calls are taken in the order in which they were made; all that wait for actions are answered in
one forward pass. An episode that is not to be learned from is played by a cast of its own, whose steps are dropped.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_observer import AgentCallbacks
from kernel_rllib.connectors.moments import Moments
from kernel_rllib.connectors.pipeline import FILTER
from kernel_rllib.connectors.policy_statistics import named_for, of_policy
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.external import AGENT, ExternalLanes
from kernel_rllib.envs.external_calls import (
    ActionsTaken,
    ActionsWanted,
    Call,
    EpisodeAbandoned,
    EpisodeEnded,
    EpisodeStarted,
    Rewarded,
)
from kernel_rllib.envs.moves import MOVES
from kernel_rllib.errors import ConfigError, EnvError
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.agent_steps import TERMINATED, VOID
from kernel_rllib.runners.agents import Agents, no_policy_found
from kernel_rllib.runners.casts import Cast, Lanes, PolicyOf
from kernel_rllib.runners.contract import Collected
from kernel_rllib.runners.episodes import EpisodeSummary
from kernel_rllib.runners.logged_steps import Done
from kernel_rllib.runners.multi_agent_episode import EPISODES, MultiAgentEpisode
from kernel_rllib.runners.place import RunnerPlace

LOOK_SECONDS = 1.0
"""The time to wait for calls before the state of the program is checked."""
SILENT_SECONDS = 60.0
"""After how long without a call a warning is due."""

_log = logging.getLogger("kernel.rllib")


@dataclass
class _Open:
    """Holds an open episode: its place, whether its steps are learned from, and its data so far."""

    place: int
    learns: bool
    known: MultiAgentEpisode


class ExternalSampler:
    """Acts for the episodes of an external environment; returns a fragment for each module."""

    complete_episodes = False

    def __init__(
        self,
        envs: ExternalLanes,
        place: RunnerPlace,
        *,
        make_modules: Callable[[], Mapping[str, Lanes]],
        policy_of: PolicyOf,
        worker: Any,
        make_observer: Callable[[Sequence[int]], AgentCallbacks | None] = lambda copies: None,
        only: str | None = None,
        complete_episodes: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the environment and the modules that act in it. Its program begins with the first sample.

        Args:
            envs: The environment.
            place: The place of the runner: its number and its lanes.
            make_modules: Makes the lanes of each module, by the ids of modules; parameters come in this order.
            policy_of: Returns the policy of an agent, given the agent, its episode and `worker`.
            worker: The context of the runner, which `policy_of` is given as `worker`.
            make_observer: Makes what calls the user's callbacks, given the numbers of copies; None: there are none.
            only: The id of the only policy, where statistics of filters are known by the names of connectors alone.
            complete_episodes: Whether samples are to be of whole episodes, which can't be had.
            clock: Tells seconds.

        Raises:
            ConfigError: If samples are to be of whole episodes, or there are several lanes.
        """
        _require_possible(envs.name, complete_episodes, len(place.lanes))
        self.lanes: Array = np.asarray(place.lanes, np.int64)
        self.place, self._only = place, only
        self.weights_version = -1
        most = envs.env.max_concurrent
        self._copies = int(self.lanes[0]) * most + np.arange(most)
        self.observer = make_observer([int(self.lanes[0])] * most)
        self._envs, self._clock = envs, clock
        self._make_modules, self._policy_of = make_modules, policy_of
        self._agents = Agents(
            envs, self._copies, modules=make_modules(), policy_of=policy_of, worker=worker, observer=self.observer
        )
        modules = list(self.modules.values())
        if len(modules) == 1 and isinstance(modules[0], AgentLanes):
            envs.env.acting.output_shapes = modules[0].output_shapes()
        self._unlearned: Cast | None = None
        """The policies of episodes that are not learned from."""
        self._free = list(range(most))
        self._begun = [0] * most
        self._open: dict[str, _Open] = {}
        self._calls: deque[Call] = deque()
        """The calls that were taken, and are to be heard next."""
        self._waiting: dict[str, ActionsWanted | ActionsTaken] = {}
        """The observations of agents, by episode, for which no action is chosen yet."""
        self._actions: dict[int, Mapping[Any, Any]] = {}
        """The last actions of agents, by place. Callbacks get them with the rewards that follow."""
        self._gained: dict[int, tuple[dict[Any, float], dict[Any, Any]]] = {}
        self._steps = place.steps_before
        self._agent_steps = 0
        self._ended: list[EpisodeSummary] = []

    @property
    def envs(self) -> ExternalLanes:
        """The environment."""
        return self._envs

    @property
    def _timestep(self) -> int:
        """The number of steps of all runners, if the others made as many as this one."""
        return self._steps * self.place.all_lanes // len(self.lanes)

    @property
    def modules(self) -> Mapping[str, Lanes]:
        """The modules that act in episodes that begin now, by their ids; parameters come in this order."""
        return self._agents.modules

    @property
    def episodes(self) -> list[MultiAgentEpisode]:
        """The episodes that go on now."""
        return [each.known for each in self._open.values()]

    def attach(self, runner: Any) -> None:
        """Show callbacks the runner that they are in."""
        if self.observer is not None:
            self.observer.attach(runner, self._envs, self._agents.policies())

    def keep_owners(self) -> None:
        """Let fragments have the numbers of episodes, `eps_id`, and of agents in them, `agent_index`, from now on."""
        self._agents.keep_owners()

    # -- what acts ----------------------------------------------------------------------------------------------------

    def set_weights(self, vector: Array, version: int) -> None:
        """Act with these parameters [size] from now on, those of all modules one after another; they are copied."""
        self._agents.set_weights(vector)
        self.weights_version = version
        self._envs.env.acting.weights_changed(version, self._timestep, vector)
        if self._unlearned is not None:
            self._follow(self._unlearned)

    def change_policies(self, modules: Mapping[str, Lanes], policy_of: PolicyOf) -> None:
        """Let these act in episodes that begin from now on; see `MultiAgentSampler.change_policies`."""
        self._agents.change(Cast(dict(modules), policy_of))
        self._policy_of, self._unlearned = policy_of, None

    def take_learned(self) -> dict[str, Moments]:
        """Return what filters learned of each lane since this was last asked, by policy."""
        learned = self._agents.take_learned()
        return learned if self._only is None else dict(of_policy(learned, self._only))

    def set_statistics(self, statistics: Mapping[str, Moments]) -> None:
        """Let filters work with what they have learned of all lanes together, by policy."""
        self._envs.env.acting.statistics_changed(statistics)
        named = statistics
        if self._only is not None and FILTER in statistics:
            named = named_for(self._only, statistics[FILTER])
        self._agents.set_statistics(named)
        if self._unlearned is not None:
            self._follow(self._unlearned)

    def _follow(self, cast: Cast) -> None:
        """Let the modules of a cast act as those do that are learned from."""
        for module_id, lanes in cast.modules.items():
            learned = self.modules[module_id]
            if isinstance(lanes, AgentLanes) and isinstance(learned, AgentLanes):
                lanes.vector[...] = learned.vector
                lanes.set_statistics(learned.statistics)

    # -- samples ------------------------------------------------------------------------------------------------------

    def collect(self, steps: int) -> Collected:
        """Answer until agents have been asked for actions this many times; return what is over by then.

        After an error, all that wait for actions get it, and nothing is sampled any more.
        """
        before, agents_before = self._steps, self._agent_steps
        fragments, report = self.sample(steps), None
        if self.observer is not None:
            self.observer.sampled(fragments, keeps_owners=self._agents.keeps_owners)
            report = self.observer.take()
        return Collected(fragments, self._steps - before, self._agent_steps - agents_before, report)

    def sample(self, steps: int) -> dict[str, Fragment]:
        """Answer until agents have been asked for actions this many times; return what is over by then, by module."""
        self._envs.begin()
        until, heard = self._steps + steps, self._clock()
        try:
            while self._steps < until:
                if not self._calls:
                    self._calls.extend(self._envs.calls.take(LOOK_SECONDS))
                    MOVES.count += 1  # Counted, as a silent program does not hang.
                    heard = self._heard(bool(self._calls), heard)
                while self._calls and self._steps + len(self._waiting) < until:
                    self._take_in(self._calls[0])
                    self._calls.popleft()
                self._act()
        except Exception as error:
            self._fail(error)
            raise
        return self._agents.fragments(self.weights_version)

    def begin(self, *occasion: int) -> None:
        """Do nothing: the program begins episodes."""

    def take_episodes(self) -> list[EpisodeSummary]:
        """Return the episodes that ended since this was last asked."""
        ended, self._ended = self._ended, []
        return ended

    def state(self) -> dict[str, Any]:
        """Return how many steps were made; episodes that are open stay with the program, and end with it."""
        return {"lanes": {str(lane): {"external_steps": self._steps} for lane in self.lanes.tolist()}}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Count on from what `state` returned."""
        kept = [int(found["external_steps"]) for found in state["lanes"].values() if "external_steps" in found]
        self._steps = max(kept, default=self._steps)

    def close(self) -> None:
        """Let all that wait for actions get an error, and close the environment."""
        self._fail(EnvError(f"{self._envs.name}: what acted for its episodes was stopped"))
        self._envs.close()

    def _fail(self, error: Exception) -> None:
        said = error if isinstance(error, EnvError) else EnvError(f"its actions can't be chosen any more: {error}")
        self._envs.calls.fail(said)
        for call in (*self._waiting.values(), *self._calls):
            if isinstance(call, ActionsWanted) and not call.actions.done():
                call.actions.set_exception(EnvError(str(said)))

    def _heard(self, is_called: bool, heard: float) -> float:
        """Warn where nothing was called for a long time; return when something was last heard."""
        now = self._clock()
        if is_called:
            return now
        if now - heard < SILENT_SECONDS:
            return heard
        _log.warning(
            "%s: nothing has asked for an action for %g s; %d episodes are open. Training waits for it",
            self._envs.name, SILENT_SECONDS, len(self._open),
        )  # fmt: skip
        return now

    # -- calls --------------------------------------------------------------------------------------------------------

    def _take_in(self, call: Call) -> None:
        if call.episode_id in self._waiting:  # The next call comes after that action.
            self._act()
        if isinstance(call, EpisodeStarted):
            self._start(call)
        elif isinstance(call, (ActionsWanted, ActionsTaken)):
            self._observe(call)
        elif isinstance(call, Rewarded):
            self._reward(call)
        elif isinstance(call, EpisodeAbandoned):
            self._leave(call.episode_id, VOID, {})
        else:
            self._end(call)

    def _start(self, call: EpisodeStarted) -> None:
        place = heapq.heappop(self._free)
        number = int(self._copies[place]) * EPISODES + self._begun[place]
        self._begun[place] += 1
        opened = self._open[call.episode_id] = _Open(place, call.learns, MultiAgentEpisode(number))
        self._agents.begin(place, opened.known)
        if not call.learns:
            if self._unlearned is None:
                self._unlearned = Cast(dict(self._make_modules()), self._policy_of)
                self._follow(self._unlearned)
            self._agents.casts[place] = self._unlearned
        self._gained[place] = {}, {}

    def _observe(self, call: ActionsWanted | ActionsTaken) -> None:
        opened = self._open[call.episode_id]
        is_first = opened.place not in self._actions
        done = Done.of(call.actions, call.outputs) if isinstance(call, ActionsTaken) else None
        method = "get_action" if done is None else "log_action"
        try:
            self._agents.admit(opened.place, call.seen, method)
        except Exception as error:  # The mapping is code of users; what it raises is no matter of other episodes.
            self._refuse(call, method, error)
            return
        self._agents.observe(opened.place, call.seen, method, done)
        if self.observer is not None:
            if is_first:
                self.observer.begin(opened.place, opened.known, call.seen, {})
                self.observer.start_episodes()
            else:
                self._show_step(opened, call.seen, is_over=False)
        self._waiting[call.episode_id] = call

    def _refuse(self, call: ActionsWanted | ActionsTaken, method: str, error: Exception) -> None:
        """Abandon an episode that has named an agent for whom no policy was found."""
        known = self._open[call.episode_id].known.policies
        new = [agent for agent in call.seen if agent not in known]
        said = no_policy_found(f"{self._envs.name}.{method}()", call.episode_id, new, error)
        _log.warning("%s", said)
        self._leave(call.episode_id, VOID, {})
        self._calls = deque((call, *self._envs.calls.refuse(call, said, list(self._calls)[1:])))

    def _act(self) -> None:
        """Choose for all that wait for actions, and answer."""
        if not self._waiting:
            return
        chosen = self._agents.act(self._timestep)
        for episode_id, call in self._waiting.items():
            opened = self._open[episode_id]
            actions = call.actions if isinstance(call, ActionsTaken) else chosen[opened.place]
            self._actions[opened.place] = actions
            self._steps += 1
            self._agent_steps += len(actions)
            opened.known.length += 1
            if isinstance(call, ActionsWanted):
                call.actions.set_result(actions)
        self._waiting.clear()

    def _reward(self, call: Rewarded) -> None:
        place = self._open[call.episode_id].place
        for agent, reward in call.rewards.items():
            self._agents.reward(place, agent, reward)
            gained = self._gained[place][0]
            gained[agent] = gained.get(agent, 0.0) + reward
        self._gained[place][1].update(call.infos)

    def _end(self, call: EpisodeEnded) -> None:
        opened = self._open[call.episode_id]
        known = opened.known
        if known.length:
            if self.observer is not None:
                self._show_step(opened, call.seen, is_over=True)
            agents = () if list(known.policies) == [AGENT] else known.by_agent()
            self._ended.append(
                EpisodeSummary(self._steps, int(self.lanes[0]), known.total_reward, known.length, agents)
            )
        self._leave(call.episode_id, TERMINATED, call.seen)

    def _leave(self, episode_id: str, fate: int, seen: Mapping[Any, Any]) -> None:
        """Close an episode, whose agents see this last; see `AgentSteps.end`."""
        opened = self._open.pop(episode_id)
        place = opened.place
        for agent in list(opened.known.live):
            self._agents.end(place, agent, fate, seen.get(agent))
        self._actions.pop(place, None)
        self._gained.pop(place)
        del self._agents.episodes[place]
        if not opened.learns:
            self._agents.casts.begin(place)
        heapq.heappush(self._free, place)

    def _show_step(self, opened: _Open, seen: Mapping[Any, Any], *, is_over: bool) -> None:
        """Call the callbacks of the step that is over now."""
        assert self.observer is not None
        rewards, infos = self._gained[opened.place]
        self._gained[opened.place] = {}, {}
        self.observer.step(opened.place, self._actions[opened.place], seen, rewards, infos)
        self.observer.stepped(opened.place, self._steps, terminated=is_over, truncated=False)


def _require_possible(name: str, complete_episodes: bool, lanes: int) -> None:
    if complete_episodes:
        raise ConfigError(
            f"{name} is an external environment, whose episodes end when its program says so: samples of whole "
            "episodes can't be asked for. Set batch_mode='truncate_episodes'"
        )
    if lanes != 1:
        raise ConfigError(
            f"{name} is an external environment, which has as many episodes as its program begins, and a runner was "
            f"told to step {lanes} copies of it: leave num_envs (num_envs_per_env_runner) at 1"
        )
