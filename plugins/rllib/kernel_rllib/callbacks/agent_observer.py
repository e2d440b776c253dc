"""Call the callbacks of a runner whose environments have several agents."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.agent_episode import AgentsEpisodeView
from kernel_rllib.callbacks.calling import CallbackSet, CallbackSettings, Samples
from kernel_rllib.callbacks.metrics_logger import (
    AFTER_SAMPLE,
    BEFORE_ALL,
    OF_SAMPLE,
    OF_START,
    OF_STEP,
    MetricsLogger,
)
from kernel_rllib.callbacks.observer import EpisodeReport, RunnerReport
from kernel_rllib.callbacks.runner_views import RunnerView
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.spaces import nested

Place = tuple[slice, int]
"""The rows of one agent's steps in a fragment: rows of one lane."""


class AgentCallbacks:
    """The callbacks of one runner."""

    def __init__(self, settings: CallbackSettings, copies: Sequence[int], context: EnvContext) -> None:
        """Make the objects.

        Args:
            settings: The settings of callbacks: what is called.
            copies: The numbers of the copies of the environment.
            context: The context that environments were made with.
        """
        self.callbacks = CallbackSet(settings)
        self.metrics = MetricsLogger(forwards=True)
        self._copies, self._context = list(copies), context
        self._waiting: dict[int, tuple[Any, Mapping[Any, Any], Mapping[Any, Any]]] = {}
        self._episodes: dict[int, AgentsEpisodeView] = {}
        self._sampled: dict[int, AgentsEpisodeView] = {}
        self._ended: list[tuple[int, int, AgentsEpisodeView]] = []
        self._steps = 0
        self._made = [-1] * len(self._copies)
        self._view: RunnerView | None = None
        self._vector: Any = None

    def attach(self, runner: Any, vector: Any, policies: Mapping[str, Any]) -> None:
        """Give callbacks the runner that they are in, its copies, and its policies; call them with the environments."""
        self._view, self._vector = RunnerView(runner, vector, {}, self.metrics, {}), vector
        self.show_policies(policies)
        if self.callbacks.has("on_sub_environment_created"):
            for index, env in enumerate(self._view.env.envs):
                context = self._context.copy_with_overrides(vector_index=index)
                given = {"sub_environment": env, "env_context": context, "env_index": index}
                self._at(index, BEFORE_ALL)
                self._call("on_sub_environment_created", given)
        self._at(0, BEFORE_ALL)
        self._call("on_environment_created", {"env_context": self._context})

    def show_policies(self, policies: Mapping[str, Any]) -> None:
        """Show callbacks these policies from now on, by their ids."""
        if self._view is not None:
            self._view.policy_map = dict(policies)
            self._view.module = {name: getattr(policy, "module", policy) for name, policy in policies.items()}

    # -- episodes -----------------------------------------------------------------------------------------------------

    def begin(self, place: int, episode: Any, seen: Mapping[Any, Any], infos: Mapping[Any, Any]) -> None:
        """Hear that an episode begins in a copy; one that was open there is forgotten.

        Args:
            place: The position of the copy.
            episode: The episode, as the runner keeps it.
            seen: The first observations, by agent.
            infos: The infos with these, by agent.
        """
        self._waiting[place] = episode, dict(seen), dict(infos or {})

    def start_episodes(self) -> None:
        """Let the episodes begin that are waiting to."""
        waiting, self._waiting = self._waiting, {}
        for place, (episode, seen, infos) in waiting.items():
            view = self._episodes[place] = AgentsEpisodeView(episode, place)
            view.observe(self._as_returned(seen), infos)
            self._call_for("on_episode_created", place, OF_START)
            self._call_for("on_episode_start", place, OF_START)

    def step(
        self,
        place: int,
        actions: Mapping[Any, Any],
        seen: Mapping[Any, Any],
        rewards: Mapping[Any, float],
        infos: Mapping[Any, Any],
    ) -> None:
        """Hear of a step of a copy: what agents did, what those who observe something observe then, what they got."""
        view = self._episodes[place]
        self._sampled[view.episode_id] = view
        view.step(actions, rewards)
        view.observe(self._as_returned(seen), infos or {})
        self._steps += 1

    def stepped(self, place: int, made: int, *, terminated: bool, truncated: bool) -> None:
        """Call the callbacks of the step, and those of the episode's end where it is over.

        Args:
            place: The position of the copy.
            made: The number of steps that it has made by now.
            terminated: Whether the episode came to its own end.
            truncated: Whether it was cut.
        """
        view = self._episodes[place]
        self._made[place] = made
        view.is_terminated, view.is_truncated = terminated, truncated
        self._call_for("on_episode_step", place, OF_STEP)
        if terminated or truncated:
            self._call_for("on_episode_end", place, OF_STEP)
            self._ended.append((made, self._copies[place], view))

    def sampled(self, fragments: Mapping[str, Fragment], *, keeps_owners: bool = False) -> None:
        """Hear of the end of a sample; what callbacks change in it is learned from.

        Args:
            fragments: The fragments that were sampled, by policy.
            keeps_owners: Whether the numbers of episodes and agents stay in it; callbacks do not see them.
        """
        numbers = {policy_id: _taken_out(fragment) for policy_id, fragment in fragments.items()}
        if self.callbacks.has("on_postprocess_trajectory"):
            for view in self._sampled.values():
                pieces = {
                    agent: (policy_id, place)
                    for policy_id, found in numbers.items()
                    for agent, place in _pieces_of(view, policy_id, fragments[policy_id], found)
                }
                self._at(view.env_id, OF_SAMPLE)
                self._postprocess(view, fragments, pieces)
        if self.callbacks.has("on_sample_end"):
            batches = {policy_id: fragment.batch() for policy_id, fragment in fragments.items()}
            samples = Samples(MultiAgentBatch(batches, self._steps), list(self._sampled.values()))
            self._at(0, AFTER_SAMPLE)
            self._call("on_sample_end", {"samples": samples})
        for policy_id, (episodes, agents) in numbers.items() if keeps_owners else ():
            fragments[policy_id].columns |= {columns.EPS_ID: episodes, columns.AGENT_INDEX: agents}

    # -- reports ------------------------------------------------------------------------------------------------------

    def take(self) -> RunnerReport:
        """Return what callbacks reported since this was last asked."""
        ended, self._ended = self._ended, []
        self._sampled, self._steps = {}, 0
        reports = [EpisodeReport(at, copy, view.custom_metrics, view.hist_data, view.media) for at, copy, view in ended]
        return RunnerReport(reports, self.metrics.drain())

    # -- going on elsewhere -------------------------------------------------------------------------------------------

    def state(self, place: int) -> bytes | None:
        """Return the open episode of a copy, pickled; None where callbacks keep in it what can't be."""
        self.start_episodes()
        try:
            return pickle.dumps(self._episodes[place])
        except Exception:  # A user's object may raise anything; the episode then begins anew.
            return None

    def set_state(self, place: int, state: bytes | None, episode: Any, seen: Mapping[Any, Any]) -> None:
        """Go on with what `state` returned; without it, with an episode that begins with what is observed now.

        Args:
            place: The position of the copy.
            state: The result of `state`.
            episode: The episode, as the runner keeps it.
            seen: The observations of now, by agent.
        """
        self._waiting.pop(place, None)
        if not state:
            self.begin(place, episode, seen, {})
            return
        view: AgentsEpisodeView = pickle.loads(state)
        view.follow(episode)
        self._episodes[place] = view

    # -- inside -------------------------------------------------------------------------------------------------------

    def _postprocess(
        self, view: AgentsEpisodeView, fragments: Mapping[str, Fragment], pieces: Mapping[Any, tuple[str, Place]]
    ) -> None:
        """Let callbacks change the steps of each agent of an episode."""
        assert self._view is not None
        views = {
            agent: {name: column[place] for name, column in fragments[policy_id].columns.items()}
            for agent, (policy_id, place) in pieces.items()
        }
        originals = {
            agent: (
                self._view.get_policy(pieces[agent][0]),
                Batch({name: column.copy() for name, column in found.items()}),
            )
            for agent, found in views.items()
        }
        for agent, found in views.items():
            policy_id, place = pieces[agent]
            batch = Batch(dict(found))
            given = {"agent_id": agent, "policy_id": policy_id, "original_batches": originals}
            self._call("on_postprocess_trajectory", {**given, "episode": view, "postprocessed_batch": batch})
            _write_back(fragments[policy_id], place, found, batch)

    def _as_returned(self, seen: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return what agents observe as the environment returned it."""
        rows = {agent: nested.mapped(lambda array: np.array(array)[None], row) for agent, row in seen.items()}
        return {agent: nested.unstack(self._vector.observation_space_of(agent), row)[0] for agent, row in rows.items()}

    def _at(self, place: int, phase: int) -> None:
        """Let what callbacks log now be of a copy, in a phase of the step that it is in."""
        self.metrics.moment = self._made[place], phase, self._copies[place]

    def _call_for(self, event: str, place: int, phase: int) -> None:
        if self.callbacks.has(event):
            self._at(place, phase)
            given = {"episode": self._episodes[place], "env_index": place, "prev_episode_chunks": []}
            self._call(event, given)

    def _call(self, event: str, given: Mapping[str, Any]) -> None:
        view = self._view
        assert view is not None
        self.callbacks.call(event, {**view.as_arguments(self.metrics), **given})


def _taken_out(fragment: Fragment) -> tuple[Array, Array]:
    """Take the numbers of episodes and agents out of a fragment, and return them [T, L]."""
    return fragment.columns.pop(columns.EPS_ID), fragment.columns.pop(columns.AGENT_INDEX)


def _pieces_of(
    view: AgentsEpisodeView, policy_id: str, fragment: Fragment, numbers: tuple[Array, Array]
) -> list[tuple[Any, Place]]:
    """Return where the steps of each agent of an episode are in the fragment of a policy."""
    there = numbers[0] == view.episode_id
    if fragment.valid is not None:
        there &= fragment.valid
    found: list[tuple[Any, Place]] = []
    for index, agent in enumerate(view.agent_ids):
        if view.policy_for(agent) != policy_id:
            continue
        rows, lanes = np.nonzero(there & (numbers[1] == index))
        if len(rows):  # an agent stays in its lane
            found.append((agent, (slice(int(rows[0]), int(rows[-1]) + 1), int(lanes[0]))))
    return found


def _write_back(fragment: Fragment, place: Place, before: Mapping[str, Array], batch: Batch) -> None:
    """Write what callbacks have changed into the fragment that the batch is of."""
    for name, value in batch.items():
        if name not in fragment.columns:
            fragment.columns[name] = np.zeros((*fragment.shape, *value.shape[1:]), value.dtype)
        if value is not before.get(name):
            fragment.columns[name][place] = value
