"""Events of the experiment's log, passed to the trial loop. Errors name the code that raised."""

from __future__ import annotations

from typing import Any

from kernel_tune.errors import TuneError
from kernel_tune.execution.instructions import Instruction
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.searchers.algorithm import SearchAlgorithm
from kernel_tune.searchers.base import Searcher


def tell(loop: TrialLoop, directory: str, event: str, *arguments: Any) -> list[Instruction]:
    """Pass an event to the loop, and return its instructions. `directory` is the experiment's, for messages.

    Raises TuneError that names the searcher or scheduler that has raised.
    """
    try:
        return _tell(loop, event, *arguments)
    except TuneError:
        raise
    except Exception as error:
        raise mishap(_who_raised(error), error, directory) from error


def mishap(who: str, error: Exception, directory: str) -> TuneError:
    """Return the error that names the code that has raised, and says how to resume the experiment."""
    return TuneError(
        f"{who} raised {type(error).__name__}: {error}. The state of the experiment before that is saved in "
        f"{directory}: mend the code, then resume with resume='AUTO' or Tuner.restore"
    )


def _tell(loop: TrialLoop, event: str, *arguments: Any) -> list[Instruction]:
    if event == "answer":
        return loop.on_answer(*arguments)
    if event == "failure":
        return loop.on_failure(*arguments)
    if event == "damage":
        return loop.on_damage(*arguments)
    if event == "capacity":
        return loop.set_capacity(*arguments)
    if event == "stop":
        return loop.stop_trial(*arguments)
    if event == "stop_all":
        return loop.stop_all()
    if event == "abandon":
        return loop.abandon(*arguments)
    if event == "add":
        return loop.add_trial(*arguments)
    if event == "retry":
        return loop.retry(*arguments)
    raise TuneError(
        f"the experiment's log has the unknown event {event!r}, perhaps of a later version of kernel: resume it there"
    )


def _who_raised(error: Exception) -> str:
    """Return the name of the searcher, search algorithm or scheduler whose code has raised."""
    name = "the trial loop"
    trace = error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        if isinstance(owner, (Searcher, TrialScheduler, SearchAlgorithm)):
            name = type(owner).__name__
        trace = trace.tb_next
    return name
