"""An environment with a process of its own, which ends with the environment, in whatever runner that is.

    python -m kernel_rllib.examples.env_with_subprocess

`stop()` closes all environments, and `close` ends the process. The process also ends where its runner dies: it waits
for words on a pipe, which closes then.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.examples.running import arguments_of, trained

PROGRAM = "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)"
"""Answers each line by the same line, from its end to its beginning: a simulator that is another program."""


class EnvWithSubprocess(gymnasium.Env[Any, Any]):
    """Shows a bit, and asks its process whether the action was that bit. An episode has 10 steps."""

    def __init__(self, config: Any = None) -> None:
        """Start the process."""
        self.observation_space, self.action_space = spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(2)
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._bit, self._made = 0, 0

    @property
    def process_id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        self._made = 0
        return self._next(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Ask the process what an action is worth."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{self._bit}{int(action)}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        self._made += 1
        return self._next(), float(answer[0] == answer[1]), self._made >= 10, False, {}

    def close(self) -> None:
        """End the process: it has nothing to wait for any more."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _next(self) -> Any:
        self._bit = int(self.np_random.integers(2))
        return np.array([self._bit], np.float32)


def make_config(seed: int | None = None) -> PPOConfig:
    """Return the settings."""
    return (
        PPOConfig()
        .environment(EnvWithSubprocess)
        .env_runners(num_env_runners=0, num_envs=2, rollout_fragment_length=50)
        .training(train_batch_size=100, minibatch_size=50, num_epochs=8, lr=1e-2, gamma=0.0)
        .training(model={"fcnet_hiddens": [16]})
        .debugging(seed=seed)
    )


def main(argv: Sequence[str] | None = None) -> float:
    """Train, and return the mean return at the end."""
    arguments = arguments_of(argv, __doc__, reward=9.0, iterations=40)
    return trained(make_config(arguments.seed), arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
