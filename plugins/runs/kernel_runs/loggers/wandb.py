"""Logging to Weights & Biases: one run a trial."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernel_runs.loggers.base import LoggerCallback
from kernel_runs.loggers.encoding import plain
from kernel_runs.loggers.flat import flat_of
from kernel_runs.optional import needed
from kernel_runs.reports import DONE, SHOULD_CHECKPOINT, TRAINING_ITERATION, Report
from kernel_runs.run import Run

_IN_CONFIG = ("trial_id", "experiment_id", "experiment_tag", "node_ip", "hostname", "pid", "date")
"""Keys of a result that belong to the run, and not to one of its steps."""


class WandbLoggerCallback(LoggerCallback):
    """Logs each trial as a W&B run. The run has the id of the trial, so that a resumed experiment continues its runs.

    `project` and `group` (by default the trainable's name) group the runs. The key is `api_key`, or the content of
    `api_key_file`, or as W&B finds it. Metrics whose keys begin with one of `excludes` are left out. With `log_config`
    the run's configuration is updated with each result, with `upload_checkpoints` checkpoints are uploaded as
    artifacts. Other arguments go to `wandb.init`.
    """

    hears_again = True  # W&B ignores steps that a run has already

    def __init__(self, project: str | None = None, group: str | None = None, api_key_file: str | None = None,
                 api_key: str | None = None, excludes: list[str] | None = None, log_config: bool = False,
                 upload_checkpoints: bool = False, **kwargs: Any) -> None:  # fmt: skip
        self.project = project
        self.group = group
        self.api_key_file = api_key_file
        self.api_key = api_key
        self.excludes = tuple(excludes or ())
        self.log_config = log_config
        self.upload_checkpoints = upload_checkpoints
        self.kwargs = kwargs
        self._wandb: Any = None
        self._runs: dict[Run, Any] = {}

    def setup(self, stop: Any = None, num_samples: int | None = None, total_num_samples: int | None = None,
              **info: Any) -> None:  # fmt: skip
        self._wandb = needed("wandb", type(self).__name__, "wandb")
        key = self.api_key
        if self.api_key_file:
            key = Path(os.path.expanduser(self.api_key_file)).read_text(encoding="utf-8").strip()
        if key:
            os.environ["WANDB_API_KEY"] = key

    def log_trial_start(self, trial: Run) -> None:
        if trial in self._runs:
            self._runs[trial].config.update(plain(trial.config), allow_val_change=True)
            return
        given = {
            "id": trial.trial_id,
            "name": str(trial),
            "project": self.project or os.environ.get("WANDB_PROJECT_NAME"),
            "group": self.group or os.environ.get("WANDB_GROUP_NAME") or trial.trainable_name,
            "config": plain(trial.config),
            "resume": "allow",
            "reinit": "create_new",
            "allow_val_change": True,
            **self.kwargs,
        }
        self._runs[trial] = self._wandb.init(**given)

    def log_trial_result(self, iteration: int, trial: Run, result: Report) -> None:
        if trial not in self._runs:
            self.log_trial_start(trial)
        run = self._runs[trial]
        left_out = (DONE, SHOULD_CHECKPOINT, *self.excludes)
        flat = {
            key: value
            for key, value in flat_of(result).items()
            if not any(key == name or key.startswith(name + "/") for name in left_out)
        }
        about = {key: flat.pop(key) for key in _IN_CONFIG if key in flat}
        if self.log_config:
            about.update(plain(result.get("config") or {}))
        run.config.update(about, allow_val_change=True)
        run.log(flat, step=result.get(TRAINING_ITERATION))

    def on_checkpoint(self, iteration: int, trials: Any, trial: Run, checkpoint: Any, **info: Any) -> None:
        if self.upload_checkpoints and trial in self._runs:
            artifact = self._wandb.Artifact(name=f"checkpoint_{trial.trial_id}", type="model")
            with checkpoint.as_directory() as directory:
                artifact.add_dir(str(directory))
            self._runs[trial].log_artifact(artifact)

    def log_trial_end(self, trial: Run, failed: bool = False) -> None:
        run = self._runs.pop(trial, None)
        if run is not None:
            run.finish(exit_code=1 if failed else 0)

    def on_experiment_end(self, trials: Any, **info: Any) -> None:
        for trial in list(self._runs):
            self.log_trial_end(trial)
