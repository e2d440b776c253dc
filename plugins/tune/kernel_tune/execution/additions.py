"""Trials that are added to a running experiment from outside."""

from __future__ import annotations

from typing import Any

from kernel_tune.execution.experiment import Experiment
from kernel_tune.execution.generation import SearchGenerator, TrialMaker
from kernel_tune.execution.plan import RunPlan
from kernel_tune.execution.run_parts import make_spec
from kernel_tune.execution.runner import Runner
from kernel_tune.searchers.basic_variant import BasicVariantGenerator
from kernel_tune.trial import Trial


class Served:
    """The interface of a running experiment for the tune server."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._count = 0

    def trials(self) -> list[Trial]:
        """Return all trials."""
        return self._runner.trials()

    def stop_trial(self, trial_id: str) -> None:
        """Stop a trial soon."""
        self._runner.stop_trial(trial_id)

    def stop_all(self) -> None:
        """Stop all trials soon."""
        self._runner.stop_all()

    def add_trials(self, name: str, specification: dict[str, Any]) -> list[str]:
        """Run the trials of a specification as well. Return their ids."""
        self._count += 1
        root = next(iter(self._runner.loop.specs.values())).local_dir
        plan = Experiment.from_json(name, {"local_dir": root, **specification}).plan()
        spec, trainable = make_spec(plan, RunPlan([plan]))
        maker = TrialMaker(hash((name, self._count)) & 0xFFFFFFFF)
        maker.count = len(self._runner.trials())
        generator = SearchGenerator(BasicVariantGenerator(random_state=self._count), spec, maker)
        trials = []
        while (trial := generator.next_trial()) is not None:
            trials.append(trial)
        self._runner.add(spec, trainable, trials)
        return [trial.trial_id for trial in trials]
