"""All runs of an experiment, one after another, and how they go on after they were interrupted."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.stopping import Stopping
from kernel_rllib.experiments.training import Listener, Outcome, config_of, last_checkpoint, trained
from kernel_rllib.experiments.variants import Variant, variants_of
from kernel_runs.loggers.files import write_whole
from kernel_runs.run import Run
from kernel_runs.storage.directories import clear_unfinished
from kernel_runs.storage.places import check_name, results_directory

RUNS_FILE = "rllib_runs.json"
"""In an experiment's directory: which runs it has, and which of them have ended."""


def run_experiment(
    experiment: Experiment,
    listener: Listener,
    *,
    resume: bool = False,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Iterator[Outcome]:
    """Yield how each run of an experiment ended, one after another.

    Nothing is written before the names, settings and environments of all of them were checked.

    Args:
        experiment: The experiment to run.
        listener: Hears of it.
        resume: Whether the runs that the experiment's directory has go on, instead of new ones beside them.
        is_stopping: Whether it is to end after this iteration; asked after each.

    Raises:
        ConfigError: If something is wrong with a name or setting, or there is nothing to resume.
    """
    variants = variants_of(experiment)
    for variant in variants:
        config_of(experiment, variant)
    Stopping(experiment.stop)
    root = os.path.abspath(os.path.expanduser(experiment.local_dir or results_directory()))
    check_name(root, experiment.name)
    directory = os.path.join(root, experiment.name)
    book = _Book(directory)
    ids = book.to_resume(len(variants)) if resume else book.begun(experiment, variants)
    for variant, entry in zip(variants, ids, strict=True):
        if entry["ended"]:
            continue
        run = Run(
            experiment.run,
            trial_id=entry["id"],
            experiment_tag=f"{variant.index}_{variant.tag}".rstrip("_"),
            evaluated_params=variant.chosen,
            local_dir=directory,
            name=entry["name"],
        )
        restore = experiment.restore
        if resume and os.path.isdir(run.logdir):
            clear_unfinished(run.logdir)
            restore = last_checkpoint(run.logdir) or restore
            run.results = _iteration_of(restore) if restore.startswith(run.logdir) else 0
        outcome = trained(experiment, variant, run, listener, restore=restore, is_stopping=is_stopping)
        if not outcome.is_interrupted:
            book.end(entry)
        yield outcome
        if outcome.is_interrupted:
            return


class _Book:
    """The file of an experiment's runs."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, RUNS_FILE)
        self._entries: list[dict[str, Any]] = self._read()

    def begun(self, experiment: Experiment, variants: list[Variant]) -> list[dict[str, Any]]:
        """Return new runs, which are written down."""
        group = uuid.uuid4().hex[:5]
        now = time.strftime("%Y-%m-%d_%H-%M-%S")
        made = []
        for variant in variants:
            env = getattr(variant.env, "__name__", variant.env) or variant.config.get("env", "")
            what = f"{experiment.run}_{str(env).rpartition('/')[2]}"
            tag = f"_{variant.tag[:60]}" if variant.tag else ""
            name = f"{what}_{group}_{variant.index:05d}_{variant.index}{tag}_{now}".replace("/", "_")
            made.append({"id": f"{group}_{variant.index:05d}", "name": name, "group": group, "ended": False})
        self._entries += made
        os.makedirs(self._directory, exist_ok=True)
        self._write()
        return made

    def to_resume(self, count: int) -> list[dict[str, Any]]:
        """Return the runs that were begun last. Raises ConfigError if there are none, or another number of them."""
        if not self._entries:
            raise ConfigError(
                f"there is nothing to resume in {self._directory}: no run of this experiment began there. Give the "
                "name and directory that it had (--experiment-name, --local-dir), or leave --resume out"
            )
        group = self._entries[-1]["group"]
        found = [entry for entry in self._entries if entry["group"] == group]
        if len(found) != count:
            raise ConfigError(
                f"the experiment in {self._directory} began with {len(found)} runs, and now there would be {count}: "
                "give what it began with, or leave --resume out"
            )
        return found

    def end(self, entry: dict[str, Any]) -> None:
        """Write down that a run has ended."""
        entry["ended"] = True
        self._write()

    def _read(self) -> list[dict[str, Any]]:
        try:
            with open(self._path, encoding="utf-8") as file:
                found: list[dict[str, Any]] = json.load(file)["runs"]
                return found
        except FileNotFoundError:
            return []
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{self._path} is damaged ({error!r}): move it away, and begin anew") from error

    def _write(self) -> None:
        write_whole(self._path, json.dumps({"runs": self._entries}, indent=1).encode())


def _iteration_of(checkpoint: str) -> int:
    return int(checkpoint.rstrip("/").rpartition("_")[2])
