"""One run of an experiment: iteration after iteration, with results and checkpoints on the disk."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernel_rllib.config.dict_generation import generation_of_keys
from kernel_rllib.envs.registry import env_maker
from kernel_rllib.errors import CheckpointError
from kernel_rllib.experiments.experiment import Experiment
from kernel_rllib.experiments.stopping import Stopping
from kernel_rllib.experiments.variants import Variant
from kernel_rllib.training.registry import algorithm_class
from kernel_runs.errors import RunError
from kernel_runs.loggers.per_trial import callbacks_of
from kernel_runs.place import Place
from kernel_runs.reports import CONFIG, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, Report, look_up
from kernel_runs.run import Run
from kernel_runs.storage.directories import being_written, checkpoint_directories, directory_name, publish


class Listener(Protocol):
    """Receives the events of a run."""

    def began(self, run: Run) -> None:
        """The run has been built, and begins."""

    def reported(self, run: Run, result: Report) -> None:
        """An iteration has ended."""

    def saved(self, run: Run, path: str) -> None:
        """A checkpoint has been written."""


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        run: The run, with its last result.
        reason: Why it ended, in words.
        checkpoint: The last checkpoint, or "".
        is_interrupted: Whether it was told to end before.
    """

    run: Run
    reason: str
    checkpoint: str
    is_interrupted: bool = False


def config_of(experiment: Experiment, variant: Variant) -> Any:
    """Return the config of a run, checked. Raises what is wrong with the algorithm's name, its settings or the env."""
    config = settings_of(experiment.run, variant.config, variant.env)
    if config.env is not None:
        env_maker(config.env)
    config.validate()
    return config


def settings_of(algorithm: str, settings: Mapping[str, Any], env: Any = None) -> Any:
    """Return the config of an algorithm with some settings, all of which have to be known.

    Defaults are those of the generation that the names of settings are of; see `config.dict_generation`.

    Args:
        algorithm: Its name.
        settings: Under names of any generation.
        env: The environment; None where they have it.
    """
    made = algorithm_class(algorithm).config_class
    config = made(generation=generation_of_keys(made, settings))
    config.update_from_dict(settings, source="experiment", keep_unknown=False)
    return config if env is None else config.environment(env)


def trained(
    experiment: Experiment,
    variant: Variant,
    run: Run,
    listener: Listener,
    *,
    restore: str = "",
    is_stopping: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train until the experiment's stopping criteria are met, or it is told to end.

    Results go to the run's directory, as `result.json`, `progress.csv` and events for TensorBoard; so do checkpoints.

    Args:
        experiment: The experiment that it is of: when it stops, when it is saved.
        variant: Its settings.
        run: Its name and directory.
        listener: Hears of iterations and checkpoints.
        restore: The checkpoint that it goes on from.
        is_stopping: Whether it is to end after this iteration; asked after each.
    """
    config = config_of(experiment, variant)
    stopping = Stopping(experiment.stop)
    run.config = config.to_dict()
    os.makedirs(run.logdir, exist_ok=True)
    Place.set_current(Place(run.trial_id, run.name, experiment.name, run.logdir))
    loggers = callbacks_of(owner="rllib train")
    algorithm = config.build()
    saving = _Saving(experiment, algorithm, run.logdir)
    failed = True
    try:
        if restore:
            _restore(algorithm, restore)
        for logger in loggers:
            logger.on_trial_start(0, [run], run)
        listener.began(run)
        reason, interrupted = "", False
        while not reason and not interrupted:
            result = algorithm.train()
            result[CONFIG] = run.config
            result[EXPERIMENT_TAG] = f"{variant.index}_{variant.tag}".rstrip("_")
            reason = "the algorithm says that it is done" if result[DONE] else stopping.reason(result)
            interrupted = is_stopping() and not reason
            result[DONE] = bool(reason)
            run.last_result = result
            for logger in loggers:
                logger.on_trial_result(run.results, [run], run, result)
            run.results += 1
            listener.reported(run, result)
            if saving.is_due(result, is_last=bool(reason) or interrupted):
                listener.saved(run, saving.save(result))
        failed = False
        return Outcome(run, reason or "interrupted; the same command with --resume goes on", saving.last, interrupted)
    finally:
        Place.set_current(None)
        algorithm.stop()
        _end(loggers, run, failed=failed)


def _end(loggers: Sequence[Any], run: Run, *, failed: bool) -> None:
    """Let loggers write what they write last. Where the run has failed already, that is the error to be heard of."""
    for logger in loggers:
        with contextlib.suppress(RunError) if failed else contextlib.nullcontext():
            (logger.on_trial_error if failed else logger.on_trial_complete)(run.results, [run], run)
            logger.on_experiment_end([run])


def last_checkpoint(directory: str) -> str:
    """Return the last checkpoint in a run's directory, or ""."""
    found = checkpoint_directories(directory)
    return found[-1][1] if found else ""


def _restore(algorithm: Any, path: str) -> None:
    place = os.path.expanduser(path)
    if not os.path.exists(place):
        raise CheckpointError(f"there is no checkpoint {path} to go on from: give the directory that training named")
    algorithm.restore(place)


_RESUMED_BY = "make room (keep_checkpoints_num keeps fewer), and give the same command with --resume"


class _Saving:
    """Writes the checkpoints of a run, and deletes those that are not to be kept."""

    def __init__(self, experiment: Experiment, algorithm: Any, directory: str) -> None:
        self._experiment, self._algorithm, self._directory = experiment, algorithm, directory
        self._scores: dict[str, float] = {}
        self.last = ""

    def is_due(self, result: Report, *, is_last: bool) -> bool:
        frequency = self._experiment.checkpoint_freq
        if is_last and self._experiment.checkpoint_at_end:
            return True
        return bool(result.get(SHOULD_CHECKPOINT)) or bool(frequency and self._algorithm.iteration % frequency == 0)

    def save(self, result: Report) -> str:
        iteration = self._algorithm.iteration
        with being_written(self._directory, iteration, _RESUMED_BY) as unfinished:
            self._algorithm.save(unfinished)
            self.last = publish(unfinished, os.path.join(self._directory, directory_name(iteration)))
        self._scores[self.last] = self._score(result)
        self._drop()
        return self.last

    def _score(self, result: Report) -> float:
        attribute = self._experiment.checkpoint_score_attr
        if not attribute:
            return float(self._algorithm.iteration)
        value = look_up(result, attribute.removeprefix("min-"))
        if not isinstance(value, (int, float)) or math.isnan(value):
            return -math.inf
        return -float(value) if attribute.startswith("min-") else float(value)

    def _drop(self) -> None:
        """Delete the worst ones beyond the number to keep; never the last, from which training can go on."""
        most = self._experiment.keep_checkpoints_num
        while most and len(self._scores) > most:
            others = [path for path in self._scores if path != self.last]
            worst = min(others, key=lambda path: self._scores[path])
            del self._scores[worst]
            shutil.rmtree(worst, ignore_errors=True)
