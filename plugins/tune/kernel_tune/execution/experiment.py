"""`Experiment`: the description of one experiment."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from kernel_runs.arguments import ArgumentError, nearest
from kernel_runs.settings.fields import made
from kernel_runs.settings.run import CheckpointConfig
from kernel_runs.storage.places import results_directory
from kernel_runs.trainable.registry import name_of, register_trainable
from kernel_tune.execution.plan import ExperimentPlan, placed
from kernel_tune.execution.spec import CheckpointPolicy, policy_of


class Experiment:
    """The description of one experiment. Its arguments are those of `tune.run`.

    A trainable that is given as a function or class is registered under its own name. `storage_path` is a directory, or
    an fsspec address that the experiment is copied to. A `checkpoint_config`, or a dict of its fields, replaces the
    single arguments about checkpoints.
    """

    def __init__(
        self, name: str, run: Any, stop: Any = None, config: dict[str, Any] | None = None,
        resources_per_trial: Any = None, num_samples: int = 1, local_dir: str | None = None,
        upload_dir: str | None = None, trial_name_creator: Any = None, loggers: Any = None, sync_to_driver: Any = None,
        checkpoint_freq: int = 0, checkpoint_at_end: bool = False, sync_on_checkpoint: bool = True,
        keep_checkpoints_num: int | None = None, checkpoint_score_attr: str | None = None, export_formats: Any = None,
        max_failures: int = 0, restore: str | None = None, *, trial_dirname_creator: Any = None,
        storage_path: str | None = None, checkpoint_config: Any = None,
    ) -> None:  # fmt: skip
        local_dir, upload_dir = placed(local_dir, storage_path, upload_dir)
        if not isinstance(run, str):
            register_trainable(name_of(run), run)
        self.name = name
        self.local_dir = os.path.abspath(os.path.expanduser(local_dir)) if local_dir else results_directory()
        self.spec: dict[str, Any] = {
            "run": run, "stop": stop, "config": config or {}, "resources_per_trial": resources_per_trial,
            "num_samples": num_samples, "local_dir": self.local_dir, "upload_dir": upload_dir,
            "trial_name_creator": trial_name_creator, "trial_dirname_creator": trial_dirname_creator,
            "loggers": loggers, "sync_to_driver": sync_to_driver, "checkpoint_freq": checkpoint_freq,
            "checkpoint_at_end": checkpoint_at_end,
            "sync_on_checkpoint": sync_on_checkpoint, "keep_checkpoints_num": keep_checkpoints_num,
            "checkpoint_score_attr": checkpoint_score_attr, "export_formats": export_formats,
            "max_failures": max_failures, "restore": restore,
            "checkpoint_config": None if checkpoint_config is None else made(CheckpointConfig, checkpoint_config),
        }  # fmt: skip

    @classmethod
    def from_json(cls, name: str, spec: Mapping[str, Any]) -> Experiment:
        """Return the experiment that a dict describes: `{"run": ..., "config": ...}`. Raises ValueError if "run" is
        missing.

        An unknown key raises ArgumentError.
        """
        if "run" not in spec:
            raise ValueError(f"experiment {name!r} has no 'run': the trainable's name, function or class")
        known = [each for each in inspect.signature(cls).parameters if each != "name"]
        for key in spec:
            if key not in known:
                raise ArgumentError(f"experiment {name!r}: there is no argument {key!r}.{nearest(key, known)}")
        return cls(name, **dict(spec))

    @property
    def remote_checkpoint_dir(self) -> str | None:
        """The address that the experiment is copied to, or None."""
        upload = self.spec["upload_dir"]
        return f"{upload.rstrip('/')}/{self.name}" if upload else None

    @property
    def checkpoint_dir(self) -> str:
        """The experiment's directory."""
        return os.path.join(self.local_dir, self.name)

    def plan(self) -> ExperimentPlan:
        """Return the plan of the experiment."""
        spec = self.spec
        return ExperimentPlan(
            trainable=spec["run"],
            name=self.name,
            config=spec["config"],
            num_samples=spec["num_samples"],
            stop=spec["stop"],
            resources=spec["resources_per_trial"],
            local_dir=self.local_dir,
            trial_name_creator=spec["trial_name_creator"],
            trial_dirname_creator=spec["trial_dirname_creator"],
            checkpoints=policy_of(spec["checkpoint_config"]) if spec["checkpoint_config"] else CheckpointPolicy(
                spec["checkpoint_freq"], spec["checkpoint_at_end"], spec["keep_checkpoints_num"],
                spec["checkpoint_score_attr"],
            ),
            max_failures=spec["max_failures"],
            export_formats=spec["export_formats"] or (),
            restore=spec["restore"],
            upload_dir=spec["upload_dir"],
            sync_to_driver=spec["sync_to_driver"],
            loggers=spec["loggers"],
        )  # fmt: skip


def convert_to_experiments(given: Any) -> list[Experiment]:
    """Return the experiments for one experiment, a dict of name to description, or a list of these."""
    if isinstance(given, Experiment):
        return [given]
    if isinstance(given, Mapping):
        return [
            spec if isinstance(spec, Experiment) else Experiment.from_json(name, spec) for name, spec in given.items()
        ]
    if isinstance(given, (list, tuple)) and all(isinstance(each, (Experiment, Mapping)) for each in given) and given:
        return [experiment for each in given for experiment in convert_to_experiments(each)]
    raise TypeError(f"experiments are an Experiment, a dict of name to description or a list of these, not {given!r}")
