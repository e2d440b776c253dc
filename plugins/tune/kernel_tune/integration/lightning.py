"""Callbacks by which PyTorch Lightning reports metrics and saves checkpoints, after validations or at other moments."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_runs.session import report
from kernel_tune.integration.reporting import chosen, listed, report_with_checkpoint, wanted

_NAME = "pytorch_lightning" if "pytorch_lightning" in sys.modules else "lightning.pytorch"
"""The name of the library. A program that has imported the older one has trainers of that."""
_lightning = needed(_NAME, "kernel.tune.integration.lightning", "lightning")
_log = logging.getLogger("kernel.tune")

EVENTS = tuple(sorted(name.removeprefix("on_") for name in dir(_lightning.Callback) if name.startswith("on_")))
"""The values of `on`: Lightning calls the method `on_<event>`."""


class TuneReportCheckpointCallback(_lightning.Callback):  # type: ignore[misc]
    """Reports metrics and saves the trainer: `Trainer(callbacks=[TuneReportCheckpointCallback({"loss": "val_loss"})])`.

    `metrics` is the name of a value that the module has logged, a list of names, or a dict from the name to report to
    Lightning's name; None reports all. Metrics that are not logged yet are left out, with a warning; without any metric
    there is no report. `on` is one of `EVENTS`, or a list. The checkpoint has the file `filename`, for
    `trainer.fit(ckpt_path=...)`, unless `save_checkpoints` is False. Validation before training is not reported. If the
    trial is to stop, training ends as by `trainer.should_stop`, and `fit` raises StopIteration.
    """

    def __init__(self, metrics: Any = None, filename: str = "checkpoint", save_checkpoints: bool = True,
                 on: str | Sequence[str] = "validation_end") -> None:  # fmt: skip
        super().__init__()
        self._metrics = wanted(metrics)
        self._filename = filename
        self._save_checkpoints = save_checkpoints
        self._missing: set[str] = set()
        self._stop: StopIteration | None = None
        for event in listed(on, EVENTS, "on"):
            setattr(self, f"on_{event}", self._hear)
        self._also_at_the_end = self._hear if "on_fit_end" in self.__dict__ else None
        self.on_fit_end = self._end

    def _end(self, trainer: Any, *arguments: Any, **named: Any) -> None:
        """Raise StopIteration if the trial is to stop. Lightning calls this when `fit` is about to return."""
        if self._also_at_the_end is not None and self._stop is None:
            self._also_at_the_end(trainer)
        if self._stop is not None:
            raise self._stop

    def _hear(self, trainer: Any, *arguments: Any, **named: Any) -> None:
        if trainer.sanity_checking or self._stop is not None:
            return
        metrics = self._measured(trainer)
        if not metrics:
            return
        try:
            if self._save_checkpoints:
                report_with_checkpoint(metrics, trainer.save_checkpoint, self._filename)
            else:
                report(metrics)
        except StopIteration as stop:  # Lightning would take it for the end of one of its loops
            self._stop = stop
            trainer.should_stop = True

    def _measured(self, trainer: Any) -> dict[str, Any]:
        return self._logged(dict(trainer.callback_metrics))

    def _logged(self, values: dict[str, Any]) -> dict[str, Any]:
        if self._metrics is None:
            return chosen(None, values, "Lightning")
        there = {reported: name for reported, name in self._metrics.items() if name in values}
        missing = set(self._metrics.values()) - set(there.values()) - self._missing
        if missing:
            self._missing |= missing
            _log.warning("Lightning has logged no %s yet, and %s", " and no ".join(sorted(missing)), _known(values))
        return chosen(there, values, "Lightning") if there else {}


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics, without saving."""

    def __init__(self, metrics: Any = None, on: str | Sequence[str] = "validation_end") -> None:
        super().__init__(metrics, save_checkpoints=False, on=on)


class EpochReportCallback(TuneReportCheckpointCallback):
    """Reports all logged metrics, `epoch` and `step` after each epoch of training, with `checkpoint.ckpt`."""

    CHECKPOINT_NAME = "checkpoint.ckpt"

    def __init__(self) -> None:
        super().__init__(filename=self.CHECKPOINT_NAME, on="train_epoch_end")

    def _measured(self, trainer: Any) -> dict[str, Any]:
        return {**super()._measured(trainer), "epoch": trainer.current_epoch, "step": trainer.global_step}


def _known(values: dict[str, Any]) -> str:
    return f"only {', '.join(sorted(values))}" if values else "nothing else"
