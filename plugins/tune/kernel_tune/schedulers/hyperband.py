"""HyperBand: brackets of successive halving, from one whose trials all run to the end to one that is halved often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kernel_runs.arguments import check_number
from kernel_runs.reports import TRAINING_ITERATION, Report
from kernel_tune.schedulers.base import Controller
from kernel_tune.schedulers.common import ComparingScheduler, first_that_fits
from kernel_tune.schedulers.hyperband_bracket import Bracket, largest_bracket, plan
from kernel_tune.trial import Status, Trial


class HyperBandScheduler(ComparingScheduler):
    """Puts trials into brackets, pauses them at milestones, and lets the best of each bracket continue.

    Source: Li et al., "Hyperband" (JMLR 18, 2018, arXiv:1603.06560), algorithm 1. With eta = `reduction_factor` and R =
    `max_t` there are brackets s = 0 ... floor(log_eta R). Bracket s begins with ceil((s_max+1)/(s+1) eta**s) trials,
    which are first judged at R eta**-s. All brackets are one round; when a round is full another begins. Smaller
    brackets are filled first, so with few trials little is stopped early.

    `max_t` (at least 1) is the time, in units of `time_attr`, at which a trial ends (unless `stop_last_trials` is
    False). In the paper it is the largest resource of one configuration, which is the same here because paused trials
    continue where they were. Trainables must be able to save and restore, as any number of trials share the resources.
    A bracket that can't be filled, because there are no more trials, continues with those that it has. Raises
    `ArgumentError` for invalid arguments.
    """

    needs_checkpoints = True

    def __init__(
        self, time_attr: str = TRAINING_ITERATION, metric: str | None = None, mode: str | None = None,
        max_t: float = 81, reduction_factor: float = 3, stop_last_trials: bool = True, seed: int | None = None,
        **unknown: Any,
    ) -> None:  # fmt: skip
        super().__init__(time_attr, metric, mode, seed, **unknown)
        check_number(self, "max_t", max_t, least=1)
        check_number(self, "reduction_factor", reduction_factor, above=1)
        self._max_t = max_t
        self._eta = reduction_factor
        self._stop_last_trials = stop_last_trials
        self._s_max = largest_bracket(max_t, reduction_factor)
        self._rounds: list[list[Bracket]] = [[]]
        self._homes: dict[str, Bracket] = {}
        """The bracket of each trial that is still in one, by id."""
        self._trials: dict[str, Trial] = {}
        self._stopped = 0

    def _order(self) -> list[int]:
        """Return the numbers s of a round's brackets, in the order in which they are filled."""
        return list(range(self._s_max + 1))

    def on_trial_add(self, runner: Controller, trial: Trial) -> None:
        """Put the trial into the bracket that is being filled, or a new one."""
        current = self._rounds[-1]
        if not current or current[-1].is_full:
            if len(current) > self._s_max:
                current = []
                self._rounds.append(current)
            s = self._order()[len(current)]
            current.append(Bracket(s, plan(s, self._max_t, self._eta), self._stop_last_trials))
        current[-1].add(trial.trial_id)
        self._homes[trial.trial_id] = current[-1]
        self._trials[trial.trial_id] = trial

    def on_trial_result(self, runner: Controller, trial: Trial, result: Report) -> str:
        """Pause a trial that has reached its milestone. The last one to reach it starts the next rung."""
        time, score = self.time_of(trial, result), self.score_of(trial, result)
        bracket = self._homes.get(trial.trial_id)
        if bracket is None:
            return self.STOP
        bracket.report(trial.trial_id, time, score)
        if not bracket.has_arrived(trial.trial_id) or (bracket.is_last and not self._stop_last_trials):
            return self.CONTINUE
        self._note_milestone(result, bracket)
        bracket.members[trial.trial_id].released = False
        self._go_on(runner, bracket, trial)
        if trial.trial_id not in self._homes:
            return self.STOP
        return self.CONTINUE if bracket.members[trial.trial_id].released else self.PAUSE

    def _note_milestone(self, result: Report, bracket: Bracket) -> None:
        """Hook: a trial of a bracket has reached its milestone with this result."""

    def on_trial_complete(self, runner: Controller, trial: Trial, result: Report) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def on_trial_remove(self, runner: Controller, trial: Trial) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def on_trial_error(self, runner: Controller, trial: Trial) -> None:
        """Continue without the trial."""
        self._leave(runner, trial)

    def _leave(self, runner: Controller, trial: Trial) -> None:
        bracket = self._homes.pop(trial.trial_id, None)
        if bracket is not None:
            del bracket.members[trial.trial_id]
            self._go_on(runner, bracket)

    def _go_on(self, runner: Controller, bracket: Bracket, current: Trial | None = None, now: bool = False) -> None:
        """Start the next rung if all have reached the milestone and no trials will be added (`now`: even if some may
        be).

        `current` is the trial that is being decided about. It is not stopped here, but leaves its bracket.
        """
        while bracket.all_have_arrived() and not bracket.is_last:
            if not (bracket.is_full or now or not runner.may_make_trials()):
                return
            self._end(runner, bracket.halve(), current)
        if bracket.is_last and self._stop_last_trials:
            done = [trial_id for trial_id in bracket.members if bracket.has_arrived(trial_id)]
            for trial_id in done:
                del bracket.members[trial_id]
            self._end(runner, done, current)

    def _end(self, runner: Controller, trial_ids: Iterable[str], current: Trial | None) -> None:
        for trial_id in trial_ids:
            del self._homes[trial_id]
            self._stopped += 1
            if current is None or trial_id != current.trial_id:
                runner.stop_trial(self._trial(runner, trial_id))

    def choose_trial_to_run(self, runner: Controller) -> Trial | None:
        """Return a trial that may run, of the earliest round that has one, and in it of the least complete bracket.

        If all trials are paused until a bracket is full, it might never fill up while nothing runs, so it continues as
        it is.
        """
        found = first_that_fits(runner, self._released(runner))
        filling = self._rounds[-1][-1] if self._rounds[-1] else None
        if found is not None or filling is None or filling.rung > 0 or not filling.all_have_arrived():
            return found
        self._go_on(runner, filling, now=self._all_wait(runner))
        return first_that_fits(runner, self._released(runner))

    def _unfinished(self) -> Iterator[Bracket]:
        for brackets in self._rounds:
            yield from (bracket for bracket in self._ranked(brackets) if not bracket.is_over)

    def _ranked(self, brackets: list[Bracket]) -> list[Bracket]:
        return sorted(brackets, key=Bracket.completed)

    def _released(self, runner: Controller) -> Iterator[Trial]:
        for bracket in self._unfinished():
            for trial_id, member in bracket.members.items():
                if member.released:
                    yield self._trial(runner, trial_id)

    def _all_wait(self, runner: Controller) -> bool:
        paused = all(trial.status is Status.PAUSED for trial in runner.get_live_trials())
        return paused and next(self._released(runner), None) is None

    def _trial(self, runner: Controller, trial_id: str) -> Trial:
        if trial_id not in self._trials:
            self._trials = {trial.trial_id: trial for trial in runner.get_trials()}
        return self._trials[trial_id]

    def get_state(self) -> dict[str, Any]:
        """Return the state that further decisions depend on. Trials are looked up by id after it is restored."""
        return {**super().get_state(), "_trials": {}}

    def debug_string(self) -> str:
        """Return the number of stopped trials, and the progress of each bracket."""
        brackets = sum(len(each) for each in self._rounds)
        lines = [f"Using HyperBand: num_stopped={self._stopped} total_brackets={brackets}"]
        for index, each in enumerate(self._rounds):
            lines.append(f"Round #{index}:")
            lines += [bracket.describe(self._trials) for bracket in each]
        return "\n".join(lines)
