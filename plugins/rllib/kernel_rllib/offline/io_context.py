"""The context of the user's own readers and writers: the settings, and the runner that they are in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.offline.input_reader import InputReader


class IOContext:
    """The context of a reader or writer."""

    def __init__(
        self,
        log_dir: str | None = None,
        config: Mapping[str, Any] | Any = None,
        worker_index: int = 0,
        worker: Any = None,
        *,
        seed: int | None = None,
        make_sampler_input: Callable[[], InputReader] | None = None,
    ) -> None:
        """Describe a place.

        Args:
            log_dir: The directory of the run's results; None: the working directory.
            config: The settings of the run, a config or a dict.
            worker_index: The number of the runner: 0 beside the learner, from 1 elsewhere.
            worker: The runner, where it has one.
            seed: The seed of draws in this place; None: they differ each time.
            make_sampler_input: Makes what steps the environment here.
        """
        self.log_dir = log_dir or os.getcwd()
        self.config = {} if config is None else config
        self.worker_index, self.worker, self.seed = worker_index, worker, seed
        self._make_sampler_input = make_sampler_input

    @property
    def input_config(self) -> Mapping[str, Any]:
        """The settings for the reader."""
        return self.config.get("input_config") or {}

    @property
    def output_config(self) -> Mapping[str, Any]:
        """The settings for the writer."""
        return self.config.get("output_config") or {}

    def default_sampler_input(self) -> InputReader:
        """Return a reader whose batches are made in the environment, by the policy of now.

        Raises:
            ConfigError: If nothing steps an environment here.
        """
        if self._make_sampler_input is None:
            raise ConfigError(
                "default_sampler_input() steps the environment of a runner, and this IOContext is in none: it has one "
                "where the function that input_ names is called"
            )
        return self._make_sampler_input()
