"""The stop criteria of a run: after which results a trial ends, and when all trials end."""

from __future__ import annotations

from kernel_tune.execution.code_reload import reload_code
from kernel_tune.execution.events import mishap
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.stoppers import DictionaryStopper, NoopStopper, Stopper, make_stopper, name_of
from kernel_tune.trainable.orders import Answer
from kernel_tune.trial import Trial

_LOCAL = (NoopStopper, DictionaryStopper)
"""Stop criteria that the process of a trial checks itself."""


class StopCriteria:
    """Evaluates the stop criteria of experiments, by their names. `directory` is the experiment's, for messages."""

    def __init__(self, stoppers: dict[str, Stopper], directory: str) -> None:
        self.stoppers = stoppers
        self._directory = directory

    @property
    def must_decide(self) -> bool:
        """Whether a criterion has to see each result before its trial continues."""
        return any(type(stopper) not in _LOCAL for stopper in self.stoppers.values())

    def decide(self, spec: ExperimentSpec, trial: Trial, answer: Answer) -> tuple[list[bool], bool]:
        """Return for each result whether the trial ends after it, and whether all trials end.

        Raises TuneError that names the criterion if it raises.
        """
        stopper = self.stoppers.get(spec.name)
        if stopper is None:  # the experiment was added later
            stopper = self.stoppers[spec.name] = make_stopper(spec.stop)
        try:
            verdicts = [bool(stopper(trial.trial_id, result)) for result in answer.results]
            return verdicts, bool(answer.results) and bool(stopper.stop_all())
        except Exception as error:
            raise mishap(f"the stop criterion {name_of(stopper)}", error, self._directory) from error

    def adopt(self, kept: dict[str, Stopper]) -> None:
        """Take over the criteria that an earlier run has saved, with their present code."""
        for name, stopper in kept.items():
            if name in self.stoppers:
                reload_code(stopper, self.stoppers[name])
        self.stoppers = kept
