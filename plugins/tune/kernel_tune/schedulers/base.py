"""The base of trial schedulers, and the controller that they are given."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kernel_runs.reports import DEFAULT_METRIC, Report
from kernel_tune.trial import Trial


class Controller(Protocol):
    """What a scheduler sees of the experiment, and how it requests changes, which take effect after it has returned."""

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether the resources of a trial are free now. For a running trial: whether as many more are free.

        For a trial that is not one of the experiment's, its `resources` count.
        """

    def has_resources(self, resources: Any) -> bool:
        """Return whether these resources are free now, in the form of a trial's or of `resources_per_trial`."""

    def may_make_trials(self) -> bool:
        """Return whether the searcher may make further trials."""

    def stop_trial(self, trial: Trial) -> None:
        """End another trial than the one being decided about. It becomes TERMINATED."""

    def pause_trial(self, trial: Trial) -> None:
        """Pause a running trial other than the one being decided about."""

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Let `trial` continue from the newest state of `donor`, with another configuration.

        If `donor` is running it saves its state first. `tag` is added to the experiment tag of `trial` after an `@`,
        and replaces an earlier one.
        """

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Let a trial continue with other resources. A running one is paused, and started again when they are free."""

    def write_line(self, file_name: str, line: str) -> None:
        """Append a line to a file in the experiment's directory. A resumed experiment writes no line twice."""


class TrialScheduler:
    """Decides which trials continue, and which one runs next.

    It is called in one thread, by the trial loop. It reads no clock: times come with the results (`time_attr`). Random
    values come from a generator made from `seed`. The same calls must have the same results: an experiment resumes by
    repeating the calls. `runner` is a `Controller`.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    """Save the trial's state in memory and release its resources. `choose_trial_to_run` may start it again."""
    STOP = "STOP"
    NOOP = "NOOP"
    """Let the trial wait with its resources, until another request about it."""

    needs_checkpoints = False
    """Whether trainables must be able to save and restore their state."""

    copies_states = False
    """Whether trials continue from the states of others (`Controller.exploit`). Pauses save to disk then."""

    def __init__(self, metric: str | None = None, mode: str | None = None) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode is {mode!r}: it is 'min' or 'max'")
        self._metric = metric
        self._mode = mode

    @property
    def metric(self) -> str:
        """The key of the result that decisions depend on."""
        return self._metric or DEFAULT_METRIC

    @property
    def mode(self) -> str:
        """ "max" or "min"."""
        return self._mode or "max"

    def set_search_properties(self, metric: str | None, mode: str | None, **experiment: Any) -> bool:
        """Take metric and mode of the experiment if they are not set yet. Return False if others are set."""
        fits = (self._metric in (None, metric) or metric is None) and (self._mode in (None, mode) or mode is None)
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return fits

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """A trial was made."""

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """A running trial has failed, and does not run again."""

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """A running trial has reported. Return CONTINUE, PAUSE, STOP or NOOP. `trial.last_result` is the one before."""
        return self.CONTINUE

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """A running trial has ended: by itself, by a stop criterion, by a user's request, or by this scheduler."""

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """A pending or paused trial has ended."""

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return a pending or paused trial that is to run, and for which there are resources, or None.

        It is called again after the trial was started, until it returns None. It is idempotent: two calls return the
        same trial. If there is room for a new trial, and the searcher has one, it is made before this is called.
        """
        for status in (Trial.PENDING, Trial.PAUSED):
            for trial in runner.get_live_trials():
                if trial.status is status and runner.has_resources_for_trial(trial):
                    return trial
        return None

    def debug_string(self) -> str:
        """Return one or more lines about the state, for users."""
        return f"Using {type(self).__name__}."

    def get_state(self) -> dict[str, Any]:
        """Return the state that further decisions depend on. It can be pickled."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` has returned."""
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state into a file."""
        Path(checkpoint_path).write_bytes(pickle.dumps(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Restore the state from a file that `save` has written."""
        self.set_state(pickle.loads(Path(checkpoint_path).read_bytes()))
