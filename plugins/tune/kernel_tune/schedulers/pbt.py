"""Population based training: the worst trials continue from copies of the best, with changed configurations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_runs.arguments import ArgumentError, check_callable, check_number
from kernel_runs.reports import TIME_TOTAL_S, TRAINING_ITERATION, Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.common import WORST, ComparingScheduler, first_that_fits
from kernel_tune.schedulers.pbt_explore import CustomExplore, check_mutations, explore, fill, tag_of
from kernel_tune.schedulers.pbt_policy import GLOBAL_LOG, Exploit, policy_log
from kernel_tune.trial import Status, Trial


@dataclass
class Member:
    """Holds one trial of the population. `tag` is the experiment tag that it was made with."""

    tag: str
    score: float | None = None
    iteration: int = 0
    time: float = 0.0
    """The time when it, or its donor, was last compared."""
    last_perturbation: float = 0.0
    seen: float = 0.0
    """The time of its last result."""
    step: float = 0.0
    """The duration of its last iteration."""
    is_copy: bool = False
    """Whether it has not reported since it was copied from a donor."""
    policy: tuple[str, ...] = ()
    """The lines of the log that led to its present state."""


class PopulationBasedTraining(ComparingScheduler):
    """Every `perturbation_interval`, trials of the lower quantile continue from the states of the upper quantile.

    Source: Jaderberg et al., "Population Based Training of Neural Networks" (arXiv:1711.09846), sections 3 and 4.1.1:
    truncation selection, and perturbing or resampling.

    `hyperparam_mutations` says for each key of the configuration how it may change: a list of values, a domain such as
    `tune.uniform(0, 1)`, a function without arguments that returns a value, or a dict of these. A trial whose
    configuration lacks such a key gets a value when it is made. A value is resampled with `resample_probability`;
    otherwise it is multiplied by one of `perturbation_factors` (it may leave its domain), or moves to a neighbour in a
    list or `tune.choice`. `custom_explore_fn(config)` is called afterwards, and returns the configuration. At least one
    of the two is required.

    At most `quantile_fraction` (0 to 0.5) of the trials are replaced. `burn_in_period` is the time before which a trial
    is not compared. With `synch` all trials wait for each other at every interval (appendix A.1 of the paper). With
    `require_attrs=False` results may lack metric or time. Times are in units of `time_attr`, by default seconds.

    If there is not room for all trials, they take turns. With `log_config` each exploit is a line in `pbt_global.txt`
    and `pbt_policy_{trial_id}.txt` in the experiment's directory: a JSON list of the tags of trial and donor, the
    iterations of both, the donor's configuration and the new one. Raises `ArgumentError` for invalid arguments.
    """

    copies_states = True

    needs_checkpoints = True

    def __init__(
        self, time_attr: str = TIME_TOTAL_S, metric: str | None = None, mode: str | None = None,
        perturbation_interval: float = 60.0, burn_in_period: float = 0.0,
        hyperparam_mutations: dict[str, Any] | None = None, quantile_fraction: float = 0.25,
        resample_probability: float = 0.25, perturbation_factors: Sequence[float] = (1.2, 0.8),
        custom_explore_fn: CustomExplore | None = None, log_config: bool = True,
        require_attrs: bool = True, synch: bool = False, seed: int | None = None, **unknown: Any,
    ) -> None:  # fmt: skip
        super().__init__(time_attr, metric, mode, seed, **unknown)
        hyperparam_mutations = hyperparam_mutations or {}
        name = type(self).__name__
        check_mutations(name, hyperparam_mutations)
        if not hyperparam_mutations and custom_explore_fn is None:
            raise ArgumentError(
                f"{name} would change nothing: give hyperparam_mutations, such as "
                f"{{'lr': tune.loguniform(1e-5, 1e-1)}}, or custom_explore_fn, a function that gets a configuration "
                f"and returns another"
            )
        if custom_explore_fn is not None:
            check_callable(self, "custom_explore_fn", custom_explore_fn)
        check_number(self, "perturbation_interval", perturbation_interval, above=0)
        check_number(self, "burn_in_period", burn_in_period, least=0)
        check_number(self, "quantile_fraction", quantile_fraction, least=0, most=0.5)
        check_number(self, "resample_probability", resample_probability, least=0, most=1)
        if not perturbation_factors:
            raise ArgumentError(f"{name}: perturbation_factors is empty, but must be numbers such as (1.2, 0.8)")
        for factor in perturbation_factors:
            check_number(self, "each of perturbation_factors", factor, above=0)
        self._interval = perturbation_interval
        self._burn_in = burn_in_period
        self._mutations = hyperparam_mutations
        self._quantile_fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._factors = tuple(perturbation_factors)
        self._custom_explore_fn = custom_explore_fn
        self._log_config = log_config
        self._require_attrs = require_attrs
        self._synch = synch
        self._next_sync = max(perturbation_interval, burn_in_period)
        self._members: dict[str, Member] = {}
        self._checkpoints = 0
        self._perturbations = 0

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Add the trial to the population, with values for the mutated keys that its configuration lacks."""
        trial.evaluated_params.update(fill(trial.config, self._mutations, self._random))
        self._members[trial.trial_id] = Member(trial.experiment_tag)

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Compare the trial when it is due. If it is among the worst, it continues from a better one."""
        if not (self._require_attrs or self.has_both(result)):
            return self.CONTINUE
        time, score = self.time_of(trial, result), self.score_of(trial, result)
        member = self._members[trial.trial_id]
        self._follow(member, time)
        due = self._next_sync if self._synch else max(member.last_perturbation + self._interval, self._burn_in)
        if time < due:
            return self.CONTINUE
        member.time, member.score, member.iteration = time, score, int(result.get(TRAINING_ITERATION, 0))
        self._note(trial, member)
        if self._synch:
            self._synchronise(runner)
            self._checkpoints += 1
            return self.PAUSE
        member.last_perturbation = time
        donor = self._donor_for(trial, *self._quantiles(self._live(runner)))
        if donor is not None:
            self._exploit(runner, trial, donor)
        if self._others_wait(runner, trial):
            self._checkpoints += 1
            return self.PAUSE
        return self.CONTINUE if donor is None else self.NOOP

    def _follow(self, member: Member, time: float) -> None:
        """Note the time of a member. The first result of a copy shows the time of its donor when that was saved.

        That may be later than when the donor was compared. The copy is compared a whole interval after it.
        """
        if member.is_copy:
            member.last_perturbation = max(member.last_perturbation, time - member.step)
            member.is_copy = False
        else:
            member.step = max(time - member.seen, 0.0)
        member.seen = time

    def _note(self, trial: Trial, member: Member) -> None:
        """Hook: a trial is compared; `member` has its time and score."""

    def _others_wait(self, runner: Controller, trial: Trial) -> bool:
        """Return whether others wait for the trial's resources, including trials that the searcher may make."""
        waiting = (Status.PENDING, Status.PAUSED)
        if runner.may_make_trials():
            return True
        return any(other.status in waiting and other is not trial for other in runner.get_live_trials())

    def _live(self, runner: Controller) -> list[Trial]:
        return [trial for trial in runner.get_live_trials() if trial.trial_id in self._members]

    def _quantiles(self, trials: Iterable[Trial]) -> tuple[list[Trial], list[Trial]]:
        """Return the worst and the best trials with a score: two disjoint lists of the same length."""
        ranked = [trial for trial in trials if self._members[trial.trial_id].score is not None]
        ranked.sort(key=lambda trial: self._members[trial.trial_id].score or 0.0)
        size = min(math.ceil(len(ranked) * self._quantile_fraction), len(ranked) // 2)
        return ranked[:size], ranked[len(ranked) - size :]

    def _donor_for(self, trial: Trial, lower: list[Trial], upper: list[Trial]) -> Trial | None:
        """Return one of the best at random if the trial is one of the worst, else None. A donor's score is not NaN."""
        best = [each for each in upper if self._members[each.trial_id].score != WORST]
        return self._random.choice(best) if best and any(each is trial for each in lower) else None

    def _exploit(self, runner: Controller, trial: Trial, donor: Trial) -> None:
        config = self._new_config(trial, donor)
        member, of_donor = self._members[trial.trial_id], self._members[donor.trial_id]
        member.time = of_donor.time
        member.last_perturbation = of_donor.last_perturbation
        member.is_copy = True
        if self._log_config:
            reached = max(of_donor.iteration, donor.iteration)
            step = Exploit(member.tag, of_donor.tag, member.iteration, reached, dict(donor.config), config)
            member.policy = (*of_donor.policy, step.line())
            runner.write_line(GLOBAL_LOG, step.line())
            for line in member.policy:
                runner.write_line(policy_log(trial.trial_id), line)
        self._perturbations += 1
        self._checkpoints += donor.status is Status.RUNNING
        runner.exploit(trial, donor, config, tag_of(config, self._mutations))

    def _new_config(self, trial: Trial, donor: Trial) -> dict[str, Any]:
        """Return the configuration with which a trial continues from the state of the donor."""
        return explore(
            donor.config, self._mutations, self._random, self._resample_probability, self._factors,
            self._custom_explore_fn,
        )  # fmt: skip

    def _synchronise(self, runner: Controller, now: bool = False) -> None:
        """If all have reached the barrier, let the worst continue from the best, and set the next barrier.

        It also waits for trials that the searcher may make, unless `now`.
        """
        live = self._live(runner)
        behind = any(self._members[each.trial_id].time < self._next_sync for each in live)
        if not live or behind or (runner.may_make_trials() and not now):
            return
        lower, upper = self._quantiles(live)
        for trial in lower:
            donor = self._donor_for(trial, lower, upper)
            if donor is not None:
                self._exploit(runner, trial, donor)
        slowest = min(self._members[each.trial_id].time for each in live)
        while self._next_sync <= slowest:
            self._next_sync += self._interval

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def _leave(self, runner: Controller, trial: Trial) -> None:
        """Remove the trial. Others no longer wait for it at the barrier."""
        if self._members.pop(trial.trial_id, None) is not None and self._synch:
            self._synchronise(runner)

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return the trial with the smallest time. With `synch`, one that has not reached the barrier."""
        if not self._synch:
            return first_that_fits(runner, self._waiting(runner))
        found = first_that_fits(runner, self._waiting(runner, self._next_sync))
        if found is None:
            everybody_waits = all(trial.status is Status.PAUSED for trial in self._live(runner))
            self._synchronise(runner, now=everybody_waits)
            found = first_that_fits(runner, self._waiting(runner, self._next_sync))
        return found

    def _waiting(self, runner: Controller, before: float = math.inf) -> list[Trial]:
        """Return the pending and paused trials before a time, the smallest time first."""
        waiting = (Status.PENDING, Status.PAUSED)
        trials = [trial for trial in self._live(runner) if trial.status in waiting]
        times = {trial.trial_id: self._members[trial.trial_id].time for trial in trials}
        return sorted((each for each in trials if times[each.trial_id] < before), key=lambda each: times[each.trial_id])

    def get_state(self) -> dict[str, Any]:
        """Return the state that further decisions depend on, without the functions that were given as arguments."""
        state = super().get_state()
        for name in ("_mutations", "_custom_explore_fn"):
            del state[name]
        return state

    def debug_string(self) -> str:
        """Return the number of states that were saved for this, and of trials that were changed."""
        return f"{type(self).__name__}: {self._checkpoints} checkpoints, {self._perturbations} perturbs"
