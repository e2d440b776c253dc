"""What a trial scheduler is: after every result it says whether the trial goes on."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kernel_runs.reports import DEFAULT_METRIC, Report
from kernel_tune.trial import Trial


class Controller(Protocol):
    """What a scheduler sees of the experiment, and may ask for; requests take effect after the scheduler returns."""

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether what the trial needs is free now. Of a trial that is already running: whether more is.

        Of a trial that is not one of the experiment's: whether its `resources` are.
        """

    def has_resources(self, resources: Any) -> bool:
        """Return whether so much is free now; `resources` are those of a trial, or as in `resources_per_trial`."""

    def may_make_trials(self) -> bool:
        """Return whether the searcher may still come with more trials."""

    def stop_trial(self, trial: Trial) -> None:
        """End a trial that is not the one being decided about: it becomes TERMINATED."""

    def pause_trial(self, trial: Trial) -> None:
        """Pause a running trial that is not the one being decided about."""

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Have `trial` go on from the newest state of `donor`, with another configuration.

        `donor` saves its state first if it is running. `tag` is added to the experiment tag of `trial`, after an `@`,
        in place of the one before.
        """

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Have a trial go on with other resources: it is paused if it runs, and started again when they are free."""

    def write_line(self, file_name: str, line: str) -> None:
        """Append a line to a file in the experiment's directory; a resumed experiment writes nothing twice."""


class TrialScheduler:
    """Decides what goes on, and what runs next.

    The trial loop calls it from one thread. It reads no clock: times come with the results (`time_attr`). Random values
    come from a generator made from `seed`. The same calls must give the same answers: an experiment resumes by giving
    a scheduler the same calls again. `runner` is a `Controller`.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    """Save the trial's state in memory and give back its resources; `choose_trial_to_run` may start it again."""
    STOP = "STOP"
    NOOP = "NOOP"
    """The trial waits as it is, with its resources, until another request about it."""

    needs_checkpoints = False
    """Whether trainables must be able to save and restore their state."""

    copies_states = False
    """Whether it has trials go on from the states of others (`Controller.exploit`): pauses then save to disk."""

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> str:
        """The key of the result that is decided by."""
        return self._metric or DEFAULT_METRIC

    @property
    def mode(self) -> str:
        """ "max" or "min"."""
        return self._mode or "max"

    def set_search_properties(self, metric: str | None, mode: str | None, **experiment: Any) -> bool:
        """Take metric and mode of the experiment where there are none yet; return False if they differ from our own."""
        fits = (self._metric in (None, metric) or metric is None) and (self._mode in (None, mode) or mode is None)
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return fits

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """A trial was made."""

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """A running trial has failed for good."""

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """A running trial has reported; return CONTINUE, PAUSE, STOP or NOOP. `trial.last_result` is the one before."""
        return self.CONTINUE

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """A running trial has ended by itself, by a stop criterion, because a person said so or because we did."""

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """A trial that was pending or paused has ended."""

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return a pending or paused trial that is to run, and for which there are resources; or None.

        Asked again after the trial was started, until it returns None. Idempotent: asking twice gives the same trial.
        Where there is room for a new trial, and the searcher has one, it was made before this is asked.
        """
        for status in (Trial.PENDING, Trial.PAUSED):
            for trial in runner.get_live_trials():
                if trial.status is status and runner.has_resources_for_trial(trial):
                    return trial
        return None

    def debug_string(self) -> str:
        """Return a line or more for people who watch."""
        return f"Using {type(self).__name__}."

    def get_state(self) -> dict[str, Any]:
        """Return all that makes the next decisions, as something that can be pickled."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what `get_state` has returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a file that `save` has written."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))
