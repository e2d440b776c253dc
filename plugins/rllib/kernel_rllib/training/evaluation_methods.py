"""The evaluations of an algorithm as its users ask for them, with their events for callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernel_rllib.checkpoints.layout import read_checkpoint
from kernel_rllib.policy.workers import WorkerSet
from kernel_rllib.training.access import PolicyAccess
from kernel_rllib.training.evaluating import Evaluations, RunningEvaluation
from kernel_rllib.training.keeping import checkpoint_directory
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.results import ResultTree


class EvaluationMethods(PolicyAccess):
    """Evaluates the policies of an algorithm."""

    evaluations: Evaluations
    reports: Reports

    def evaluate(self, checkpoint: Any = None, **_: Any) -> ResultTree:
        """Play by the settings for evaluation, and return what that brings, also under the key `evaluation`.

        Args:
            checkpoint: The path of a checkpoint whose parameters are evaluated; None for those of now.

        Raises:
            CheckpointError: If there is no checkpoint, or it is one of another module.
        """
        if checkpoint is None or callable(checkpoint):
            found = self.evaluation_now()
        else:
            learners = read_checkpoint(checkpoint_directory(checkpoint))["learners"]
            now = self.learners.state()
            try:
                self.learners.set_state(learners)
                found = self.evaluation_now()
            finally:
                self.learners.set_state(now)
        return {**found, "evaluation": found}

    def evaluation_now(self) -> ResultTree:
        """Return what an evaluation finds that training waits for."""
        self.reports.call("on_evaluate_start", self)
        if self.config.custom_evaluation_function is not None:
            return self._ended(self._by_function()())
        return self._ended(self.evaluations.evaluate(self.learners.vector, self.runners.statistics))

    def begin_evaluation(self) -> RunningEvaluation:
        """Begin an evaluation of the parameters of now, beside training."""
        self.reports.call("on_evaluate_start", self)
        if self.config.custom_evaluation_function is not None:
            evaluate = self._by_function()
            return RunningEvaluation(lambda goes_on: evaluate())
        return self.evaluations.begin(self.learners.vector.copy(), self.runners.statistics)

    def end_evaluation(self, running: RunningEvaluation) -> ResultTree:
        """Return what an evaluation finds that has gone on beside training."""
        return self._ended(running.end())

    @property
    def eval_workers(self) -> WorkerSet:
        """The workers that evaluate."""
        evaluator, blueprint = self.evaluations.evaluator, self.evaluations.blueprint
        settings = self.worker_settings(blueprint, self.evaluations.config, evaluator.runners)
        return WorkerSet(settings, evaluator.runners, self._policies)

    evaluation_workers = eval_workers
    eval_env_runner_group = eval_workers

    def _by_function(self) -> Callable[[], ResultTree]:
        """Return what evaluates by the user's function; the runners have the parameters of now."""
        function, workers = self.config.custom_evaluation_function, self.eval_workers
        assert function is not None
        self.evaluations.evaluator.prepare(self.learners.vector, self.runners.statistics)
        return lambda: self.evaluations.by_function(function, self, workers)

    def _ended(self, found: ResultTree) -> ResultTree:
        self.reports.call("on_evaluate_end", self, evaluation_metrics=found)
        self.reports.tell_of_new_runners(self, self.evaluations.evaluator.runners, is_evaluation=True)
        return found
