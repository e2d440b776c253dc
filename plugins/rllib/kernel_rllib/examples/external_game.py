"""A game that runs by its own clock, as those of game engines do, and asks for actions when its agents are ready.

    python -m kernel_rllib.examples.external_game

Catchers stand below falling fruit. The game draws frame after frame, whatever anybody does; a catcher decides in every
second or third frame only, and stands still meanwhile. So the game calls, and is not called: it is an
`ExternalMultiAgentEnv`. A game that runs in a program of its own says the same through `PolicyClient`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.envs.external import ExternalMultiAgentEnv
from kernel_rllib.examples.running import arguments_of, trained

WIDTH, HEIGHT = 5, 12
LEFT, STAY, RIGHT = range(3)
PERIODS = {"quick": 2, "slow": 3}
"""By catcher: in every how many frames it decides."""


class FruitGame(ExternalMultiAgentEnv):
    """Each catcher has fruit of its own. To catch one brings 1; a round is over after some pieces."""

    def __init__(self, env_config: Any) -> None:
        """Take the settings: `pieces` of fruit in an episode (10), and the `seed` of the game (0)."""
        seen = spaces.Box(-1.0, 1.0, (3,), np.float32)
        super().__init__(action_space=spaces.Discrete(3), observation_space=seen)
        self._pieces = int(env_config.get("pieces", 10))
        self._random = np.random.default_rng(int(env_config.get("seed", 0)))
        self._is_closed = threading.Event()

    def run(self) -> None:
        """Play round after round, until it is closed."""
        while not self._is_closed.is_set():
            self._play()

    def close(self) -> None:
        """Let the game end after its round."""
        self._is_closed.set()

    def _play(self) -> None:
        episode = self.start_episode()
        catchers = {name: Catcher(self._random) for name in PERIODS}
        for frame in range(self._pieces * HEIGHT):
            ready = {name: each for name, each in catchers.items() if frame % PERIODS[name] == 0}
            if ready:  # Those who are not ready are not asked.
                chosen = self.get_action(episode, {name: each.seen() for name, each in ready.items()})
                for name, action in chosen.items():
                    ready[name].move(int(action) - STAY)
            gained = {name: each.next_frame() for name, each in catchers.items()}
            self.log_returns(episode, gained)
        self.end_episode(episode, {name: each.seen() for name, each in catchers.items()})


class Catcher:
    """A catcher on its strip of ground, and the fruit above it."""

    def __init__(self, random: np.random.Generator) -> None:
        """Stand in the middle, below new fruit."""
        self._random = random
        self.place = WIDTH // 2
        self._drop()

    def seen(self) -> np.ndarray[Any, Any]:
        """Return how far beside and above the fruit is, and where the catcher stands, each within -1 and 1 [3]."""
        beside, high, place = self.fruit - self.place, self.height, self.place
        return np.array([beside / WIDTH, high / HEIGHT, 2 * place / (WIDTH - 1) - 1], np.float32)

    def move(self, by: int) -> None:
        """Go one place to a side, as far as there is ground."""
        self.place = min(max(self.place + by, 0), WIDTH - 1)

    def next_frame(self) -> float:
        """Let the fruit fall, and return what that brings."""
        self.height -= 1
        if self.height:
            return 0.0
        is_caught = self.place == self.fruit
        self._drop()
        return float(is_caught)

    def _drop(self) -> None:
        self.fruit, self.height = int(self._random.integers(WIDTH)), HEIGHT


def make_config(pieces: int = 10) -> Any:
    """Return the settings of PPO, whose one policy decides for both catchers."""
    return (
        PPOConfig()
        .environment(FruitGame, env_config={"pieces": pieces})
        .env_runners(num_env_runners=0)
        .multi_agent(policies={"catcher"}, policy_mapping_fn=lambda agent, *_, **__: "catcher")
        .training(
            train_batch_size=1200, minibatch_size=200, num_epochs=10, lr=2e-3, gamma=0.95, lambda_=0.9,
            entropy_coeff=0.01, use_kl_loss=False, model={"fcnet_hiddens": [32, 32]},
        )
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> float:
    """Train until both together catch most of 20 pieces, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=16.0, iterations=60)
    return trained(make_config().debugging(seed=arguments.seed), arguments)


if __name__ == "__main__":
    main()
