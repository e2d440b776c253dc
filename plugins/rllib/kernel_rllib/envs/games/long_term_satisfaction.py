"""A recommender's dilemma: what users click on now makes them less satisfied later.

The environment "long-term satisfaction" of RecSim (Ie et al. 2019, arXiv:1909.04847), in numpy, except that here the
satisfaction of users is observed, so that an observation tells all that matters for what comes next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.envs.game import Game, Generator, SingleEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces.nested import Array, Struct

_MOST_ENGAGEMENT = 1e6
"""The upper bound of the space of engagements."""


class LongTermSatisfactionGame(Game):
    """One user a lane, to whom a slate of documents is shown in each step, of which one is clicked on, or none.

    A document is a number from 0 (kale: dull and wholesome) to 1 (chocolate: it attracts, and leaves one empty). It is
    clicked on with a probability in proportion to e to the power of that number, and no one in proportion to
    `no_click_mass`. The reward is how long the user is engaged: log-normal, with the mean of its logarithm between
    those of kale and chocolate, times the satisfaction, sigmoid(`sensitivity` * exposure). The exposure to kale, net of
    chocolate, decays by `memory_discount`, and each document that is read changes it by between 1 and -1.

    An observation is a dict: `user`, the satisfaction [1]; `doc`, a Box [1] for each candidate, by its number as text;
    `response`, for each place of the slate whether it was clicked on, and the engagement. An action has the numbers of
    the candidates in the slate. Settings, with the names of RecSim: `num_candidates` (10), `slate_size` (2),
    `memory_discount` (0.7), `sensitivity` (0.01), `innovation_stddev` (0.05: of the noise of the exposure),
    `choc_mean` (5.0), `choc_stddev` (1.0), `kale_mean` (4.0), `kale_stddev` (1.0), `no_click_mass` (1.0),
    `max_episode_steps` (60).
    """

    defaults = {  # noqa: RUF012
        "num_candidates": 10, "slate_size": 2, "memory_discount": 0.7, "sensitivity": 0.01, "innovation_stddev": 0.05,
        "choc_mean": 5.0, "choc_stddev": 1.0, "kale_mean": 4.0, "kale_stddev": 1.0, "no_click_mass": 1.0,
        "max_episode_steps": 60,
    }  # fmt: skip
    arrays = ("exposure", "documents", "clicked", "engagement")
    exposure: Array
    """float64 [lanes]: to kale, net of chocolate."""
    documents: Array
    """float32 [num_candidates, lanes]."""
    clicked: Array
    """int64 [lanes]: the place in the last slate that was clicked on; -1 for none."""
    engagement: Array
    """float32 [lanes]: of the last step."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__(settings)
        self._candidates, self._slate = int(self.settings["num_candidates"]), int(self.settings["slate_size"])
        if not 1 <= self._slate <= self._candidates:
            raise EnvError(
                f"slate_size is {self._slate}, but a slate has from 1 to num_candidates={self._candidates} documents"
            )
        response = spaces.Dict({
            "click": spaces.Discrete(2),
            "engagement": spaces.Box(0.0, _MOST_ENGAGEMENT, (1,), np.float32),
        })  # fmt: skip
        self.observation_space = spaces.Dict({
            "user": spaces.Box(0.0, 1.0, (1,), np.float32),
            "doc": spaces.Dict({name: spaces.Box(0.0, 1.0, (1,), np.float32) for name in self._names}),
            "response": spaces.Tuple([response] * self._slate),
        })  # fmt: skip
        self.action_space = spaces.MultiDiscrete([self._candidates] * self._slate)

    def allocate(self, lanes: int) -> None:
        """Make the arrays of the state."""
        self.exposure, self.clicked = np.zeros(lanes), np.full(lanes, -1, np.int64)
        self.documents = np.zeros((self._candidates, lanes), np.float32)
        self.engagement = np.zeros(lanes, np.float32)

    def begin(self, lane: int, generator: Generator) -> None:
        """Draw a user, whose exposure is between those to chocolate and to kale alone, and documents."""
        most = 1 / (1 - self.settings["memory_discount"])
        self.exposure[lane] = generator.uniform(-most, most)
        self.documents[:, lane] = generator.random(self._candidates)
        self.clicked[lane], self.engagement[lane] = -1, 0.0

    def advance(self, actions: Array, generators: list[Generator]) -> tuple[Array, Array]:
        """Show a slate to each user; no episode comes to an end of its own."""
        lanes = np.arange(len(self.exposure))
        shown = self.documents[actions.T, lanes].astype(float)
        masses = np.concatenate([np.exp(shown), np.full((1, len(lanes)), float(self.settings["no_click_mass"]))])
        ends = masses.cumsum(axis=0)
        drawn = np.array([generator.random() for generator in generators])
        place = np.minimum((ends <= drawn * ends[-1]).sum(axis=0), self._slate)
        reads = place < self._slate
        read = shown[np.minimum(place, self._slate - 1), lanes]
        noise = np.array([generator.standard_normal(2) for generator in generators])
        self.clicked[:] = np.where(reads, place, -1)
        mean, deviation = self._between("mean", read), self._between("stddev", read)
        log_engagement = mean * self.satisfaction() + deviation * noise[:, 0]
        self.engagement[:] = np.where(reads, np.minimum(np.exp(log_engagement), _MOST_ENGAGEMENT), 0.0)
        self.exposure *= self.settings["memory_discount"]
        self.exposure += np.where(reads, 1 - 2 * read + self.settings["innovation_stddev"] * noise[:, 1], 0.0)
        for lane, generator in enumerate(generators):
            self.documents[:, lane] = generator.random(self._candidates)
        return self.engagement.copy(), np.zeros(len(lanes), bool)

    def satisfaction(self) -> Array:
        """Return how satisfied users are [lanes], from 0 to 1."""
        found: Array = 1 / (1 + np.exp(-self.settings["sensitivity"] * self.exposure))
        return found

    def observe(self, lanes: Any) -> Struct:
        """Return users, documents, and what became of the last slate."""
        clicked = self.clicked[lanes]
        return {
            "doc": {name: self.documents[number, lanes][:, None].copy() for number, name in enumerate(self._names)},
            "response": tuple(
                {
                    "click": (clicked == place).astype(np.int64),
                    "engagement": np.where(clicked == place, self.engagement[lanes], np.float32(0))[:, None],
                }
                for place in range(self._slate)
            ),
            "user": self.satisfaction()[lanes, None].astype(np.float32),
        }

    @property
    def _names(self) -> list[str]:
        """The numbers of candidates as text, all as long, so that their order is that of numbers."""
        return [str(number).zfill(len(str(self._candidates - 1))) for number in range(self._candidates)]

    def _between(self, what: str, read: Array) -> Array:
        """Return a setting of kale and chocolate for documents between them."""
        found: Array = (1 - read) * self.settings[f"kale_{what}"] + read * self.settings[f"choc_{what}"]
        return found


class LongTermSatisfaction(SingleEnv):
    """One user."""

    game_class = LongTermSatisfactionGame
