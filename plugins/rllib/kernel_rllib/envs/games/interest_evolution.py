"""Users whose interests change by what they watch, and who stay longer where that is good: RecSim's interest evolution.

Ie et al. 2019, "SlateQ", arXiv:1905.12767, section 6.1; interests change as in RecSim (arXiv:1909.04847).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array, Struct

_LOW_TOPICS = 0.7
"""The share of topics whose videos are bad; users are as interested in them as in the others."""


class InterestEvolutionGame(Game):
    """One user a lane, with an interest in each topic from -1 to 1, and so much time.

    Each step shows a slate of videos, each of one topic. One is watched with a probability in proportion to e to the
    power of the interest in its topic, or none, in proportion to `no_click_mass`. The reward is the time watched,
    `video_length`. Watching takes that much of the user's time, less a bonus of 0.9 / 3.4 of it times the quality of
    the video; not watching takes `step_penalty`. Qualities of topics, from -3 to 3, are not shown. The interest i in
    the topic that was watched moves by (0.3 - 0.3 |i|) (1 - i): upwards with the probability (i + 1) / 2, and else
    downwards. An episode ends when the time is over.

    An observation is a dict: `user`, the interests; `doc`, the topic of each candidate, one-hot; `response`, for each
    place of the slate whether it was watched, and for how long. With `parametric` it is what linear bandits take:
    `item`, the topics of candidates [num_candidates, num_topics], and `user`; an action is then one candidate.

    Settings: `num_topics` (20), `num_candidates` (10), `slate_size` (2), `time_budget` (200.0), `video_length` (4.0),
    `step_penalty` (0.5), `no_click_mass` (1.0), `quality_stddev` (0.1), `topics_seed` (0: of the qualities of topics),
    `parametric` (False), `max_episode_steps` (None).
    """

    defaults = {  # noqa: RUF012
        "num_topics": 20, "num_candidates": 10, "slate_size": 2, "time_budget": 200.0, "video_length": 4.0,
        "step_penalty": 0.5, "no_click_mass": 1.0, "quality_stddev": 0.1, "topics_seed": 0, "parametric": False,
        "max_episode_steps": None,
    }  # fmt: skip
    arrays = ("interests", "topics", "time_left", "watched")
    interests: Array
    """float64 [num_topics, lanes]."""
    topics: Array
    """int64 [num_candidates, lanes]."""
    time_left: Array
    """float64 [lanes]."""
    watched: Array
    """int64 [lanes]: the place in the last slate that was watched; -1 for none."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._candidates, self._count = int(self.settings["num_candidates"]), int(self.settings["num_topics"])
        self._parametric = bool(self.settings["parametric"])
        self._slate = 1 if self._parametric else int(self.settings["slate_size"])
        if not 1 <= self._slate <= self._candidates:
            raise EnvError(
                f"slate_size is {self._slate}, but a slate has from 1 to num_candidates={self._candidates} videos"
            )
        generator = np.random.default_rng(self.settings["topics_seed"])
        bad = round(_LOW_TOPICS * self._count)
        self.qualities = np.concatenate([generator.uniform(-3, 0, bad), generator.uniform(0, 3, self._count - bad)])
        """The mean quality of videos of each topic [num_topics]."""
        user = spaces.Box(-1.0, 1.0, (self._count,), np.float32)
        videos = spaces.Box(0.0, 1.0, (self._candidates, self._count), np.float32)
        if self._parametric:
            self.observation_space = spaces.Dict({"item": videos, "user": user})
            self.action_space = spaces.Discrete(self._candidates)
            return
        length = float(self.settings["video_length"])
        response = spaces.Dict({
            "click": spaces.Discrete(2),
            "watch_time": spaces.Box(0.0, length, (1,), np.float32),
        })  # fmt: skip
        self.observation_space = spaces.Dict({
            "doc": videos,
            "response": spaces.Tuple([response] * self._slate),
            "user": user,
        })  # fmt: skip
        self.action_space = spaces.MultiDiscrete([self._candidates] * self._slate)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.interests, self.time_left = np.zeros((self._count, lanes)), np.zeros(lanes)
        self.topics = np.zeros((self._candidates, lanes), np.int64)
        self.watched = np.full(lanes, -1, np.int64)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw a user, and candidates."""
        self.interests[:, lane] = generator.uniform(-1, 1, self._count)
        self.time_left[lane] = self.settings["time_budget"]
        self.topics[:, lane] = generator.integers(self._count, size=self._candidates)
        self.watched[lane] = -1

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Show a slate to each user."""
        lanes = np.arange(len(self.time_left))
        shown = self.topics[actions.reshape(len(lanes), self._slate).T, lanes]
        masses = np.exp(np.take_along_axis(self.interests, shown, axis=0))
        ends = np.concatenate([masses, np.full((1, len(lanes)), float(self.settings["no_click_mass"]))]).cumsum(axis=0)
        drawn = np.array([[generator.random(), generator.random()] for generator in generators])
        place = np.minimum((ends <= drawn[:, 0] * ends[-1]).sum(axis=0), self._slate)
        watches = place < self._slate
        topic = shown[np.minimum(place, self._slate - 1), lanes]
        noise = np.array([generator.standard_normal() for generator in generators])
        length = self.settings["video_length"]
        quality = self.qualities[topic] + self.settings["quality_stddev"] * noise
        taken = length * (1 - 0.9 / 3.4 * quality)
        self.time_left -= np.where(watches, taken, self.settings["step_penalty"])
        interest = self.interests[topic, lanes]
        change = (0.3 - 0.3 * np.abs(interest)) * (1 - interest)
        moved = np.clip(interest + np.where(drawn[:, 1] < (interest + 1) / 2, change, -change), -1, 1)
        self.interests[topic[watches], lanes[watches]] = moved[watches]
        self.watched[:] = np.where(watches, place, -1)
        for lane, generator in enumerate(generators):
            self.topics[:, lane] = generator.integers(self._count, size=self._candidates)
        return np.where(watches, np.float32(length), np.float32(0)), self.time_left <= 0

    def observe(self, lanes: Any) -> Struct:
        """Return users, candidates, and what became of the last slate."""
        videos = np.eye(self._count, dtype=np.float32)[self.topics[:, lanes].T]
        user = np.ascontiguousarray(self.interests[:, lanes].T, np.float32)
        if self._parametric:
            return {"item": videos, "user": user}
        watched, length = self.watched[lanes], np.float32(self.settings["video_length"])
        responses = tuple(
            {
                "click": (watched == place).astype(np.int64),
                "watch_time": np.where(watched == place, length, np.float32(0))[:, None],
            }
            for place in range(self._slate)
        )
        return {"doc": videos, "response": responses, "user": user}


class InterestEvolution(SingleEnv):
    """One user."""

    game_class = InterestEvolutionGame
