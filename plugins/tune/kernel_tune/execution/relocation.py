"""Resuming an experiment where it is now: what trainables are, and another directory than the one it was begun in."""

from __future__ import annotations

from typing import Any

from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import Trial


class Relocation:
    """From the directories that an earlier run had to those of this one."""

    def __init__(self, loop: TrialLoop, fresh: TrialLoop) -> None:
        """Give the loop of an earlier run what is not written down of it, by a loop that was made anew."""
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
        """Return a record of the log with the directories of today."""
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
        if saved is not None and id(saved) not in self._done:  # several may know of one
            self._done[id(saved)] = saved
            saved.path = self._path(saved.path)

    def _path(self, path: str) -> str:
        for old, new in self._directories.items():
            if path.startswith(f"{old}/"):
                return new + path[len(old) :]
        return path
