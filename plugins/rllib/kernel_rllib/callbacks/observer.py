"""Call the callbacks of a runner: it gets each step of all lanes, and keeps their current episodes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.callbacks.calling import CallbackSet, CallbackSettings, Samples
from kernel_rllib.callbacks.episode import AGENT, POLICY, EpisodeView
from kernel_rllib.callbacks.metrics_logger import (
    AFTER_SAMPLE,
    BEFORE_ALL,
    OF_SAMPLE,
    OF_START,
    OF_STEP,
    Forwarded,
    MetricsLogger,
)
from kernel_rllib.callbacks.runner_views import RunnerPolicy, RunnerView
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import Step
from kernel_rllib.spaces import nested

_EPISODES = 1 << 32
"""So many episodes a lane can have before their numbers repeat."""


@dataclass(order=True)
class EpisodeReport:
    """The data that callbacks left in an ended episode. Reports of all lanes have one order.

    Attributes:
        ended_at: The number of steps of its lane by its end.
        lane: The number of that lane.
        custom_metrics: Numbers by name.
        hist_data: Lists of numbers by name.
        media: Anything by name.
    """

    ended_at: int
    lane: int
    custom_metrics: dict[str, float] = field(compare=False)
    hist_data: dict[str, list[float]] = field(compare=False)
    media: dict[str, Any] = field(compare=False)


@dataclass
class RunnerReport:
    """The reports of one runner's callbacks since the last call: ended episodes, and logged values."""

    episodes: list[EpisodeReport]
    logged: Forwarded


@dataclass
class _Piece:
    """The steps of one episode in a sample: from `begin` to before `end`."""

    episode: EpisodeView
    begin: int
    end: int


class RunnerCallbacks:
    """The callbacks of one runner."""

    def __init__(
        self,
        settings: CallbackSettings,
        lanes: Sequence[int],
        observation_space: Space[Any],
        action_space: Space[Any],
        context: EnvContext,
    ) -> None:
        """Make the objects.

        Args:
            settings: The settings of callbacks: what is called.
            lanes: The numbers of the lanes.
            observation_space: The observation space of one environment.
            action_space: The action space of one environment.
            context: The context that environments were made with.
        """
        self.callbacks = CallbackSet(settings)
        self.metrics = MetricsLogger(forwards=True)
        self._spaces = (observation_space, action_space)
        self._lanes, self._context = list(lanes), context
        self._episodes: list[Any] = [None] * len(self._lanes)
        self._begun = [0] * len(self._lanes)
        self._made = [-1] * len(self._lanes)
        self._waiting: dict[int, tuple[Any, Any]] = {}
        self._steps = 0
        self._pieces: list[list[_Piece]] = [[] for _ in self._lanes]
        self._ended: list[tuple[int, int, EpisodeView]] = []
        self._view: RunnerView | None = None

    def attach(self, runner: Any, vector: Any, module: Any, parameters: Array) -> None:
        """Give callbacks the runner that they are in, its lanes, and its modules; call them with the environments."""
        policy = RunnerPolicy(module, parameters, *self._spaces)
        self._view = RunnerView(runner, vector, module, self.metrics, {POLICY: policy})
        if self.callbacks.has("on_sub_environment_created"):
            for index, env in enumerate(self._view.env.envs):
                context = self._context.copy_with_overrides(vector_index=index)
                given = {"sub_environment": env, "env_context": context, "env_index": index}
                self._at(index, BEFORE_ALL)
                self._call("on_sub_environment_created", given)
        self._at(0, BEFORE_ALL)
        self._call("on_environment_created", {"env_context": self._context})

    # -- steps --------------------------------------------------------------------------------------------------------

    def begin(self, observed: Any, infos: Mapping[int, Any]) -> None:
        """Hear that new episodes begin in all lanes, with these observations. The open ones are forgotten."""
        values = nested.unstack(self._spaces[0], nested.copy(observed))
        self._waiting = {position: (value, infos.get(position, {})) for position, value in enumerate(values)}

    def step(self, actions: Any, step: Step, made: Array) -> None:
        """Hear of a step of all lanes.

        Args:
            actions: The actions that environments were given.
            step: The step that they returned.
            made: The number of steps that each lane has made by now [L].
        """
        self._made = (made - 1).tolist()
        self.start_episodes()
        self._made = made.tolist()
        done = nested.unstack(self._spaces[1], nested.copy(actions))
        observations = nested.unstack(self._spaces[0], nested.copy(step.obs))
        for position in range(len(self._lanes)):
            episode = self._piece(position).episode
            if position in step.faults:
                self._waiting[position] = observations[position], step.reset_infos.get(position, {})
                continue
            ended = position in step.final_obs
            observation = self._single(step.final_obs[position]) if ended else observations[position]
            episode.add(done[position], observation, float(step.rewards[position]), step.infos.get(position, {}))
            episode.is_terminated = bool(step.terminateds[position])
            episode.is_truncated = bool(step.truncateds[position])
            self._call_for("on_episode_step", position, OF_STEP)
            if ended:
                self._call_for("on_episode_end", position, OF_STEP)
                self._ended.append((int(made[position]), self._lanes[position], episode))
                self._waiting[position] = observations[position], step.reset_infos.get(position, {})
        self._steps += 1
        self.start_episodes()

    def start_episodes(self) -> None:
        """Let the episodes begin that are waiting to."""
        waiting, self._waiting = self._waiting, {}
        for position, (observation, info) in waiting.items():
            number = self._lanes[position] * _EPISODES + self._begun[position]
            self._begun[position] += 1
            self._episodes[position] = EpisodeView(number, position, observation, info)
            self._call_for("on_episode_created", position, OF_START)
            self._call_for("on_episode_start", position, OF_START)

    def sampled(self, fragment: Fragment) -> None:
        """Hear of the end of a sample; what callbacks change in it is learned from."""
        if self.callbacks.has("on_postprocess_trajectory"):
            for position, pieces in enumerate(self._pieces):
                self._at(position, OF_SAMPLE)
                for piece in pieces:
                    if _is_in(fragment, position, piece):
                        self._postprocess(fragment, position, piece)
        if self.callbacks.has("on_sample_end"):
            steps, lanes = fragment.shape
            flat = Batch({
                name: column.reshape(steps * lanes, *column.shape[2:]) for name, column in fragment.columns.items()
            })  # fmt: skip
            episodes = [piece.episode for pieces in self._pieces for piece in pieces]
            self._at(0, AFTER_SAMPLE)
            self._call("on_sample_end", {"samples": Samples(flat, episodes)})

    # -- reports ------------------------------------------------------------------------------------------------------

    def forget_after(self, made: Array) -> None:
        """Let it be as if each lane had made so many steps [L], and no more."""
        last = dict(zip(self._lanes, made.tolist(), strict=True))
        self._ended = [ended for ended in self._ended if ended[0] <= last[ended[1]]]
        self.metrics.forget(lambda moment: moment[:2] > (last[moment[2]], OF_STEP))
        self._made = made.tolist()

    def take(self) -> RunnerReport:
        """Return what callbacks reported since this was last asked."""
        ended, self._ended = self._ended, []
        self._steps, self._pieces = 0, [[] for _ in self._lanes]
        reports = [
            EpisodeReport(ended_at, lane, episode.custom_metrics, episode.hist_data, episode.media)
            for ended_at, lane, episode in ended
        ]
        return RunnerReport(reports, self.metrics.drain())

    # -- going on elsewhere -------------------------------------------------------------------------------------------

    def state(self, position: int) -> bytes | None:
        """Return the open episode of a lane, pickled; None where callbacks keep in it what can't be."""
        self.start_episodes()
        try:
            return pickle.dumps((self._begun[position], self._episodes[position]))
        except Exception:  # A user's object may raise anything; the episode then begins anew.
            return None

    def set_state(self, position: int, state: bytes | None, observed: Any) -> None:
        """Go on with what `state` returned; without it, with an episode that begins with what is observed now."""
        self._waiting.pop(position, None)
        if state:
            self._begun[position], self._episodes[position] = pickle.loads(state)
        else:
            self._waiting[position] = observed, {}

    # -- inside -------------------------------------------------------------------------------------------------------

    def _single(self, row: Any) -> Any:
        return nested.unstack(self._spaces[0], nested.mapped(lambda array: array[None], row))[0]

    def _piece(self, position: int) -> _Piece:
        """Return the piece of the open episode that this step is in."""
        episode, pieces, t = self._episodes[position], self._pieces[position], self._steps
        if not pieces or pieces[-1].episode is not episode:
            pieces.append(_Piece(episode, t, t))
        pieces[-1].end = t + 1
        return pieces[-1]

    def _postprocess(self, fragment: Fragment, position: int, piece: _Piece) -> None:
        place = (slice(piece.begin, piece.end), position)
        views = {name: column[place] for name, column in fragment.columns.items()}
        batch, before = Batch(dict(views)), Batch({name: view.copy() for name, view in views.items()})
        assert self._view is not None
        given = {
            "episode": piece.episode,
            "agent_id": AGENT,
            "policy_id": POLICY,
            "postprocessed_batch": batch,
            "original_batches": {AGENT: (self._view.get_policy(), before)},
        }
        self._call("on_postprocess_trajectory", given)
        for name, value in batch.items():
            if name not in views:
                fragment.columns[name] = _column_like(fragment, value)
            if value is not views.get(name):
                fragment.columns[name][place] = value

    def _at(self, position: int, phase: int) -> None:
        """Let what callbacks log now be of a lane, in a phase of the step that it is in."""
        self.metrics.moment = self._made[position], phase, self._lanes[position]

    def _call_for(self, event: str, position: int, phase: int) -> None:
        if self.callbacks.has(event):
            episode = self._episodes[position]
            self._at(position, phase)
            self._call(event, {"episode": episode, "env_index": position, "prev_episode_chunks": []})

    def _call(self, event: str, given: Mapping[str, Any]) -> None:
        view = self._view
        assert view is not None
        self.callbacks.call(event, {**view.as_arguments(self.metrics), **given})


def _is_in(fragment: Fragment, position: int, piece: _Piece) -> bool:
    """Return whether a fragment has a piece: it may end before it, or leave it out."""
    if piece.begin >= fragment.shape[0]:
        return False
    return fragment.valid is None or bool(fragment.valid[piece.begin : piece.end, position].any())


def _column_like(fragment: Fragment, value: Array) -> Array:
    return np.zeros((*fragment.shape, *value.shape[1:]), value.dtype)
