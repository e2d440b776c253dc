"""A policy that acts in the process of a client, with parameters that come from a server."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.connectors.moments import Moments, Statistics
from kernel_rllib.errors import ConfigError
from kernel_rllib.serving.policy_files import write_described
from kernel_rllib.training.saved_policies import read_policy


class LocalPolicy:
    """Chooses actions as runners do; each one draws noise of its own."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """Make the policy of what a server described.

        Raises:
            CheckpointError: If it can't be made here: its classes are not there, or it needs a pickle.
            ConfigError: If it remembers something between steps.
        """
        self._statistics: Statistics = {}
        with tempfile.TemporaryDirectory() as directory:
            write_described(description, Path(directory))
            saved = read_policy(Path(directory), lambda: self._statistics, seed=secrets.randbits(63))
        self._held, self._inference = saved.held, saved.inference
        if self._held.module.state():
            raise ConfigError(
                "the policy of the server remembers what it saw before, which is done in its process alone: use "
                "inference_mode='remote'"
            )
        self.version = -1
        """The version of its parameters; -1 before there are any."""
        self._timestep = 0

    def update(self, told: Mapping[str, Any]) -> None:
        """Act with the parameters that a server has told from now on."""
        self._held.replace(np.array(told["weights"], np.float32))
        self._statistics = {name: Moments.of_arrays(found) for name, found in told["statistics"].items()}
        self.version, self._timestep = int(told["version"]), int(told["timestep"])

    def act(self, observation: Any) -> tuple[Any, dict[str, Any]]:
        """Return an action, and what the module put out that learning needs, arrays by name."""
        (action,), outputs = self._inference.actions([observation], explore=True, timestep=self._timestep)
        kept = self._inference.exploration.keeps
        return action, {name: np.asarray(outputs[name])[0] for name in kept}
