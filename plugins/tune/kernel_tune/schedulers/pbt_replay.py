"""Replay of a schedule of configurations that population based training has found, with one trial."""

from __future__ import annotations

import copy
import os
from pathlib import Path

from kernel_runs.arguments import ArgumentError
from kernel_runs.reports import TRAINING_ITERATION, Report
from kernel_tune.errors import TuneError
from kernel_tune.schedulers.base import Controller, TrialScheduler
from kernel_tune.schedulers.pbt_policy import read_policy
from kernel_tune.trial import Trial


class PopulationBasedTrainingReplay(TrialScheduler):
    """Gives the only trial of an experiment the configurations of a `pbt_policy_{trial_id}.txt`, each at its iteration.

    The trial begins with the first configuration of the schedule. If the file has no schedule, the trial keeps its own.

    Raises `ArgumentError` if the file does not exist or is not a policy, and `TuneError` for a second trial.
    """

    needs_checkpoints = True
    copies_states = True

    def __init__(self, policy_file: str | os.PathLike[str]) -> None:
        super().__init__()
        path = Path(policy_file).expanduser()
        if not path.is_file():
            raise ArgumentError(
                f"there is no policy file {str(path)!r}: PopulationBasedTraining writes pbt_policy_{{trial_id}}.txt "
                f"into the experiment's directory at a trial's first exploit, unless log_config=False"
            )
        self._policy = read_policy(path.read_text(encoding="utf-8").splitlines(), str(path))
        self._name = path.stem
        self._trial_id = ""
        self._iteration = 0
        self._changes = 0

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Give the trial the first configuration."""
        if self._trial_id:
            raise TuneError(
                f"a second trial, {trial}, was added to an experiment that replays {self._name}: all trials would do "
                f"the same. Use num_samples=1"
            )
        self._trial_id = trial.trial_id
        if self._policy.first is not None:
            trial.config = copy.deepcopy(self._policy.first)
        elif not trial.config:
            raise TuneError(f"{self._name} has no schedule to replay, and trial {trial} no configuration of its own")

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Change the configuration at the iterations of the schedule. If several are due, only the last counts."""
        self._iteration = int(result.get(TRAINING_ITERATION, self._iteration))
        before = self._changes
        while self._changes < len(self._policy.changes) and self._policy.changes[self._changes][0] <= self._iteration:
            self._changes += 1
        if self._changes == before:
            return self.CONTINUE
        config = copy.deepcopy(self._policy.changes[self._changes - 1][1])
        runner.exploit(trial, trial, config, f"replay[{self._name}:{self._changes}]")
        return self.NOOP

    def debug_string(self) -> str:
        """Return the iteration of the trial, and the number of changes so far."""
        return f"PopulationBasedTraining replay: Step {self._iteration}, perturb {self._changes}"
