"""Functions as trainables. A function runs in a thread of the trial's process."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from kernel_runs import session
from kernel_runs.checkpoint import Checkpoint
from kernel_runs.errors import CheckpointError
from kernel_runs.place import Place
from kernel_runs.reports import DONE, Report, metrics_of
from kernel_runs.trainable.function_session import Delivery, FunctionSession
from kernel_runs.trainable.trainable import Trainable

_log = logging.getLogger("kernel.runs")

_GRACE_SECONDS = 5.0
"""Seconds that a stopped function may take to leave its report."""


class StatusReporter:
    """The second argument of functions of two: `reporter(score=1)` reports, `done=True` ends the trial.

    With a `result_queue` it puts reports into that queue instead, and waits for the `continue_semaphore` if one is
    given. That is for tests of such functions, outside of a trial.
    """

    def __init__(
        self, result_queue: Any = None, continue_semaphore: Any = None, trial_name: str | None = None,
        trial_id: str | None = None, logdir: str | None = None, *, place: Place | None = None,
    ) -> None:  # fmt: skip
        self._queue, self._semaphore = result_queue, continue_semaphore
        self._place = place
        if place is None and any((trial_name, trial_id, logdir)):
            self._place = Place(trial_id, trial_name, logdir=logdir or "")

    def __call__(self, _metric: Any = None, /, **metrics: Any) -> None:
        """Report metrics. Raises StopIteration if the trial is to stop."""
        if self._queue is None:
            session.report({**({} if _metric is None else metrics_of(_metric)), **metrics})
            return
        self._queue.put(metrics)
        if self._semaphore is not None:
            self._semaphore.acquire()

    @property
    def logdir(self) -> str | None:
        """The trial's directory."""
        return self._place.directory if self._place else session.get_trial_dir()

    @property
    def trial_name(self) -> str | None:
        """The trial's name."""
        return self._place.trial_name if self._place else session.get_trial_name()

    @property
    def trial_id(self) -> str | None:
        """The trial's id."""
        return self._place.trial_id if self._place else session.get_trial_id()


class FunctionTrainable(Trainable):
    """A trainable whose iterations are the reports of a function. Made by `wrap_function`."""

    function: ClassVar[Callable[..., Any]]

    def setup(self, config: dict[str, Any]) -> None:
        """Reset the state. The function is started by the first iteration: a checkpoint may be set until then."""
        self._session: FunctionSession | None = None
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._strict = False
        self._start: Checkpoint | None = None

    # -- called by the runner ----------------------------------------------------------------------------------------

    def be_strict(self, strict: bool) -> None:
        """Set whether the function waits after each report until the next one is requested."""
        self._strict = strict
        if self._session is not None:
            self._session.strict = strict

    def next_report(self, timeout: float) -> Delivery | None:
        """Return the next report, or None if none comes within `timeout` seconds or the function has ended.

        Raises the exception of the function.
        """
        self._begin()
        assert self._session is not None
        report = self._session.take(timeout)
        if report is None and self._session.is_over and self._failure is not None:
            raise self._failure
        return report

    @property
    def has_more(self) -> bool:
        """Whether a report is available without waiting."""
        return self._session is not None and self._session.has_more

    @property
    def is_over(self) -> bool:
        """Whether the function has ended and all of its reports were returned."""
        return self._session is not None and self._session.is_over and self._failure is None

    def start_from(self, checkpoint: Checkpoint) -> None:
        """Set the checkpoint that the function continues from."""
        self._start = checkpoint

    def count_from(self, iteration: int) -> None:
        """Set the iteration that the numbers of reports continue from."""
        self._iteration = self._restored_at = iteration

    # -- as a trainable --------------------------------------------------------------------------------------------

    def train(self) -> Report:
        """Wait for the function's next report and return it. After its last one, `done` is true."""
        while True:
            report = self.next_report(timeout=60.0)
            if report is not None:
                self._last = report[0]
                return report[0]
            if self.is_over:
                return {**getattr(self, "_last", {}), DONE: True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Raise CheckpointError: only the function itself can save its state."""
        raise CheckpointError(
            f"function {type(self).__name__}() can't be saved from outside: have it report(metrics, checkpoint=...), "
            "or use a Trainable class"
        )

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Restart the function with another configuration. Return False if it did not stop in time."""
        if not self._end():
            return False
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        """Stop the function at its next report."""
        self._end()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        current = self._session
        if current is None:
            current = self._session = FunctionSession(self._run_place, self.fill_in, self._start)
            current.strict = self._strict
            self._thread = threading.Thread(target=self._run, args=(current,), name="trial", daemon=True)
            self._thread.start()
        elif self._strict:
            current.go_on()

    def _run(self, current: FunctionSession) -> None:
        session.enter(current)
        try:
            _call(type(self).function, self.config, self._run_place, current)
        except BaseException as error:
            if not (_is_stop(error) and current.is_stopped):
                self._failure = _without_our_frames(error)
        finally:
            session.leave(current)
            current.end()

    def _end(self) -> bool:
        if self._session is None or self._thread is None:
            return True
        self._session.stop()
        self._thread.join(_GRACE_SECONDS)
        return not self._thread.is_alive()


def _is_stop(error: BaseException) -> bool:
    """Return whether a function has ended because it was stopped. Generators turn StopIteration into RuntimeError."""
    return isinstance(error, StopIteration) or (
        isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration)
    )


def _call(function: Callable[..., Any], config: dict[str, Any], place: Place, current: FunctionSession) -> None:
    parameters = inspect.signature(function).parameters
    if "checkpoint_dir" in parameters:
        path = current.checkpoint.path if current.checkpoint is not None else None
        value = function(config, checkpoint_dir=path)
    elif _takes_reporter(function):
        value = function(config, StatusReporter(place=place))
    elif parameters:
        value = function(config)
    else:
        value = function()
    if inspect.isgenerator(value):
        try:
            for item in value:
                session.report(metrics_of(item))
        finally:
            _close(value)
    elif value is not None and (metrics := metrics_of(value)):
        session.report(metrics)


_open: list[Any] = []
"""Generators that could not be closed. They are kept, as Python would complain when it deletes them."""


def _close(generator: Any) -> None:
    """Close a generator, so that it cleans up. One that yields again is left as it is."""
    try:
        generator.close()
    except RuntimeError as error:
        if "ignored GeneratorExit" not in str(error):
            raise
        _open.append(generator)
        _log.warning("generator %s continued to yield after its trial was stopped", generator.__name__)


def _takes_reporter(function: Callable[..., Any]) -> bool:
    """Return whether a function has a second positional parameter without a default, or one named `reporter`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [each for each in inspect.signature(function).parameters.values() if each.kind in kinds]
    return len(positional) > 1 and (
        positional[1].default is inspect.Parameter.empty or positional[1].name in ("reporter", "status_reporter")
    )


def _without_our_frames(error: BaseException) -> BaseException:
    """Return the error with a traceback that begins in the user's function."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


def wrap_function(function: Callable[..., Any], name: str | None = None) -> type[FunctionTrainable]:
    """Return the trainable class of a function of `config`, of `config` and a reporter, or of nothing.

    Raises TypeError for a function that needs more arguments.
    """
    parameters = inspect.signature(function).parameters.values()
    required = [each for each in parameters if each.default is each.empty and each.kind in (0, 1)]
    if len(required) > 2:
        raise TypeError(
            f"trainable {name or function.__name__}() needs {len(required)} arguments: a trainable is a function of "
            "config, or of config and a reporter (use with_parameters for others)"
        )
    namespace = {"function": staticmethod(function), "__module__": getattr(function, "__module__", __name__)}
    return type(str(name or getattr(function, "__name__", type(function).__name__)), (FunctionTrainable,), namespace)
