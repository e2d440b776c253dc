"""Logging to Comet: one experiment a trial."""

from __future__ import annotations

import os
from typing import Any

from kernel_runs.loggers.base import LoggerCallback
from kernel_runs.loggers.encoding import plain
from kernel_runs.loggers.flat import flat_of
from kernel_runs.optional import needed
from kernel_runs.reports import (
    DATE,
    DONE,
    EXPERIMENT_ID,
    EXPERIMENT_TAG,
    HOSTNAME,
    NODE_IP,
    PID,
    SHOULD_CHECKPOINT,
    TRAINING_ITERATION,
    TRIAL_ID,
    Report,
    flatten,
)
from kernel_runs.run import Run

_QUIET = (
    "auto_output_logging", "log_git_metadata", "log_git_patch", "log_env_cpu", "log_env_gpu",
)  # fmt: skip
"""Automatic logging of Comet that is switched off: it would log the driver once for each trial."""
_LEFT_OUT = (DONE, SHOULD_CHECKPOINT)
_SYSTEM = (NODE_IP, HOSTNAME, PID, DATE)
_OTHERS = (TRIAL_ID, EXPERIMENT_ID, EXPERIMENT_TAG)


class CometLoggerCallback(LoggerCallback):
    """Logs each trial as a Comet experiment, which is uploaded as it runs, or kept in a file with `online=False`.

    `tags` are added to each experiment. With `save_checkpoints` checkpoints are uploaded as artifacts. Other arguments
    (`project_name`, `workspace`, `api_key`, ...) go to `comet_ml.Experiment`.
    """

    def __init__(self, online: bool = True, tags: list[str] | None = None, save_checkpoints: bool = False,
                 **experiment_kwargs: Any) -> None:  # fmt: skip
        self.online = online
        self.tags = list(tags or [])
        self.save_checkpoints = save_checkpoints
        self.experiment_kwargs = {**dict.fromkeys(_QUIET, False), **experiment_kwargs}
        self._comet: Any = None
        self._experiments: dict[Run, Any] = {}

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None,
              **info: Any) -> None:  # fmt: skip
        os.environ.setdefault("COMET_DISABLE_AUTO_LOGGING", "1")
        self._comet = needed("comet_ml", type(self).__name__, "comet-ml")

    def log_trial_start(self, trial: Run) -> None:
        if trial not in self._experiments:
            kind = self._comet.Experiment if self.online else self._comet.OfflineExperiment
            experiment = self._experiments[trial] = kind(**self.experiment_kwargs)
            needed("comet_ml.config", type(self).__name__, "comet-ml").set_global_experiment(None)  # there are several
            experiment.set_name(str(trial))
            experiment.add_tags(self.tags)
            experiment.log_other("Created from", "kernel.tune")
        self._experiments[trial].log_parameters(flatten(plain(trial.config)))

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        if trial not in self._experiments:
            self.log_trial_start(trial)
        experiment = self._experiments[trial]
        flat = {key: value for key, value in flat_of(result).items() if key not in _LEFT_OUT}
        system = {key: flat.pop(key) for key in _SYSTEM if key in flat}
        others = {key: flat.pop(key) for key in _OTHERS if key in flat}
        experiment.log_others(others)
        for key, value in system.items():
            experiment.log_system_info(key, value)
        experiment.log_metrics(flat, step=result.get(TRAINING_ITERATION))

    def on_checkpoint(self, iteration: int, trials: Any, trial: Run, checkpoint: Any, **info: Any) -> None:
        if self.save_checkpoints and trial in self._experiments:
            artifact = self._comet.Artifact(name=f"checkpoint_{trial}", artifact_type="model")
            with checkpoint.as_directory() as directory:
                artifact.add(str(directory))
                self._experiments[trial].log_artifact(artifact)

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        experiment = self._experiments.pop(trial, None)
        if experiment is not None:
            experiment.end()

    def on_experiment_end(self, trials: Any, **info: Any) -> None:
        for trial in list(self._experiments):
            self.log_trial_end(trial)
