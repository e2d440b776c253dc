"""Write the samples of runners, in the runners' processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kernel_rllib.errors import DataError
from kernel_rllib.offline.action_rows import RecordedActions
from kernel_rllib.offline.input_reader import OutputWriter
from kernel_rllib.offline.inputs import close_reader
from kernel_rllib.offline.io_context import IOContext
from kernel_rllib.offline.sampler_input import Recorder
from kernel_rllib.runners.env_runner import EnvRunner, Sample, Work


class Recording:
    """The work of a runner that writes its samples. It is sent to where that runs, and makes a writer there."""

    def __init__(
        self,
        make_writer: Callable[[IOContext], OutputWriter],
        actions: Mapping[str, RecordedActions],
        seed: int,
        *,
        config: Any = None,
        log_dir: str | None = None,
        then: Work | None = None,
    ) -> None:
        """Write.

        Args:
            make_writer: Makes the writer of a runner.
            actions: Turns the actions of each policy into those of files, by its id.
            seed: The seed of the run.
            config: The settings, for writers of the user's own.
            log_dir: The directory of the run's results.
            then: Turns samples into what is sent after that; None to send samples.
        """
        self._make_writer, self._actions, self._seed = make_writer, actions, seed
        self._config, self._log_dir, self._then = config, log_dir, then
        self._writer: OutputWriter | None = None

    def __call__(self, runner: EnvRunner, sample: Sample) -> Sample:
        """Write a sample of a runner; return it, or what is made of it after that."""
        if self._writer is None:
            context = IOContext(self._log_dir, self._config, runner.index, runner)
            self._writer = self._make_writer(context)
            if not callable(getattr(self._writer, "write", None)):
                raise DataError(
                    f"the function that output names returned {self._writer!r:.80}, and not an OutputWriter: an object "
                    "with write(batch)"
                )
            lanes = runner.sampler.lanes.tolist()
            seeds = np.random.SeedSequence((self._seed, *lanes)).generate_state(1)
            self._recorder = Recorder(self._actions, int(seeds[0]))
        if any(fragment.steps for fragment in sample.fragments.values()):
            self._writer.write(self._recorder.batch(sample.fragments, sample.env_steps))
        return sample if self._then is None else self._then(runner, sample)

    def close(self) -> None:
        """End the file that is written here."""
        if self._writer is not None:
            close_reader(self._writer)
