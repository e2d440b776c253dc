"""Resuming an experiment in another directory, and with trainables of the present program."""

from __future__ import annotations

from typing import Any

from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import Trial


class Relocation:
    """Maps the directories of an earlier run to those of this one."""

    def __init__(self, loop: TrialLoop, fresh: TrialLoop) -> None:
        """Update the loop of an earlier run with what is not written to disk, from a new loop."""
        self._directories: dict[str, str] = {}
        self._done: dict[int, Saved] = {}
        for spec, known in zip(loop.specs.values(), fresh.specs.values(), strict=False):
            now = fresh.specs.get(spec.name, known)
            spec.trainable, spec.resources = now.trainable, now.resources
            if spec.local_dir != now.local_dir:
                self._directories[spec.local_dir] = now.local_dir
        if not self._directories:
            return
        for spec in loop.specs.values():
            self._move_spec(spec)
        for trial in loop.trials:
            self._move_trial(trial)
            progress = loop.progress_of(trial)
            replaced = progress.replacement.state if progress.replacement is not None else None
            for saved in (progress.state, progress.first_state, replaced, *[kept.saved for kept in progress.book.kept]):
                self._move_saved(saved)

    def record(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a record of the log with present directories."""
        for each in record if self._directories else ():
            if isinstance(each, Answer):
                for saved in (*[saved for _, saved in each.saved], each.state):
                    self._move_saved(saved)
            elif isinstance(each, ExperimentSpec):
                self._move_spec(each)
            elif isinstance(each, Trial):
                self._move_trial(each)
        return record

    def _move_spec(self, spec: ExperimentSpec) -> None:
        spec.local_dir = self._directories.get(spec.local_dir, spec.local_dir)

    def _move_trial(self, trial: Trial) -> None:
        trial.error_file = self._path(trial.error_file)
        trial.local_dir = self._directories.get(trial.local_dir, trial.local_dir)

    def _move_saved(self, saved: Saved | None) -> None:
        if saved is not None and id(saved) not in self._done:  # several objects may refer to one
            self._done[id(saved)] = saved
            saved.path = self._path(saved.path)

    def _path(self, path: str) -> str:
        for old, new in self._directories.items():
            if path.startswith(f"{old}/"):
                return new + path[len(old) :]
        return path
