"""What is written of an experiment: events for its log, and a readable state."""

from __future__ import annotations

from typing import Any

from kernel_runs.loggers.encoding import to_json
from kernel_runs.reports import Report
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.trainable.orders import Answer, Saved


def for_log(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of an event for the log: without the data of states in memory."""
    return tuple(_without_data(each) if isinstance(each, Answer) else each for each in arguments)


def _without_data(answer: Answer) -> Answer:
    def bare(saved: Saved) -> Saved:
        return Saved(saved.iteration, saved.path, sizes=saved.sizes)

    return Answer(
        answer.results,
        [(number, bare(saved)) for number, saved in answer.saved],
        answer.ended,
        answer.error,
        answer.raised,
        None if answer.state is None else bare(answer.state),
        answer.refused,
        process=answer.process,
    )


def describe(loop: TrialLoop, seconds: float) -> str:
    """Return the state of an experiment as JSON. `seconds` is the time used so far."""
    state = {
        "runner_data": {"seconds": seconds, "is_finished": loop.is_finished},
        "stats": {"trials": len(loop.trials), "scheduler": loop.scheduler.debug_string()},
        "experiments": [
            {"name": spec.name, "trainable": spec.trainable_name, "metric": spec.metric, "mode": spec.mode}
            for spec in loop.specs.values()
        ],
        "trials": [
            {
                "trial_id": trial.trial_id,
                "name": str(trial),
                "experiment_tag": trial.experiment_tag,
                "trainable_name": trial.trainable_name,
                "status": str(trial.status),
                "config": trial.config,
                "evaluated_params": trial.evaluated_params,
                "logdir": trial.logdir,
                "results": trial.results,
                "last_result": _plain(trial.last_result),
                "error_file": trial.error_file,
                "checkpoints": [kept.saved.path for kept in loop.progress_of(trial).book.kept],
            }
            for trial in loop.trials
        ],
    }
    return to_json(state)


def _plain(result: Report) -> Report:
    return {key: value for key, value in result.items() if isinstance(value, (int, float, str, bool, type(None)))}
