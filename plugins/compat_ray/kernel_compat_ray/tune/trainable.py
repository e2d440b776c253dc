"""Trainables as classes, with the methods of all releases of Ray Tune."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

from kernel import runs
from kernel.runs.reports import Report


class Trainable(runs.Trainable, metaclass=ABCMeta):
    """A trial as a class, as kernel has it, whose methods may have the names of the first releases.

    `_setup`, `_train`, `_save`, `_restore`, `_stop`, `_log_result` and `_export_model` are called where a class does
    not override today's methods. Each of kernel's trainables is an instance of this class as well.
    """

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        return issubclass(kind, runs.Trainable) if cls is Trainable else NotImplemented

    def setup(self, config: dict[str, Any]) -> None:
        """Prepare, by `_setup`."""
        self._setup(config)

    def step(self) -> Report:
        """Do one iteration and return its metrics, by `_train`."""
        return self._train()

    def save_checkpoint(self, checkpoint_dir: str) -> str | dict[str, Any] | None:
        """Write the state into a directory, by `_save`."""
        return self._save(checkpoint_dir)

    @classmethod
    def can_save(cls) -> bool:
        """Return whether the class overrides `save_checkpoint` or `_save`."""
        return cls.save_checkpoint is not Trainable.save_checkpoint or cls._save is not Trainable._save

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Restore the state, by `_restore`."""
        self._restore(checkpoint)

    def cleanup(self) -> None:
        """Release what the trainable holds, by `_stop`."""
        self._stop()

    def log_result(self, result: Report) -> None:
        """Handle a result, by `_log_result`."""
        self._log_result(result)

    def export(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        """Write the model in these formats, by `_export_model`. Return a path for each."""
        return self._export_model(export_formats, export_dir)

    # -- older names, which subclasses override and call ---------------------------------------------------------------

    def _setup(self, config: dict[str, Any]) -> None:
        super().setup(config)

    def _train(self) -> Report:
        return super().step()

    def _save(self, checkpoint_dir: str) -> str | dict[str, Any] | None:
        return super().save_checkpoint(checkpoint_dir)

    def _restore(self, checkpoint: Any) -> None:
        super().load_checkpoint(checkpoint)

    def _stop(self) -> None:
        super().cleanup()

    def _log_result(self, result: Report) -> None:
        super().log_result(result)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return super().export(export_formats, export_dir)


class DurableTrainable(Trainable, runs.DurableTrainable):
    """Copies its checkpoints to remote storage, as kernel's class of this name does."""
