"""The trial loop: what comes in from trials, and what is to be done about it. No clock, no processes, no files.

It owns the trials and asks the search algorithm and the scheduler. Whoever calls it carries out the instructions that
it returns, in order. It gives the same instructions for the same calls, so that an experiment resumes by making the
calls again that its log has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.resources import Demand, make_request, total
from kernel_tune.execution.checkpoint_book import CheckpointBook
from kernel_tune.execution.code_reload import reload_code
from kernel_tune.execution.instructions import (
    Instruction,
    Notify,
    Start,
    Write,
)
from kernel_tune.execution.progress import Copy, Progress
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.execution.trial_transitions import TrialTransitions
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import Status, Trial


class TrialLoop(TrialTransitions):
    """Decides about all trials. Events are its methods `on_answer`, `on_failure` ...; each returns instructions.

    `max_concurrent` bounds how many trials run at once (0: only resources do).
    """

    # -- events ----------------------------------------------------------------------------------------------------

    def set_capacity(self, capacity: Demand, nodes: Sequence[Demand] = ()) -> list[Instruction]:
        """The machines have so much now: all together, and each of them."""
        self.room.capacity, self.room.nodes = dict(capacity), list(nodes)
        self._may_start = True
        return self._turn()

    def on_answer(self, trial_id: str, answer: Answer, verdicts: Sequence[bool] = (), stop_all: bool = False
                  ) -> list[Instruction]:  # fmt: skip
        """The process of a trial has answered. `verdicts` say after which results a stop criterion ends the trial."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        self.outstanding.pop(trial_id, None)
        asked, progress.waits_for = progress.waits_for, ""
        if answer.process[1]:
            trial.location = "{}:{}".format(*answer.process)
        if trial.status is Status.RUNNING:
            if stop_all:
                self._deciding = trial
                self._ask_all_to_stop()
                self._deciding = None
            self._take_results(trial, progress, answer, verdicts, asked)
        return self._turn()

    def on_failure(self, trial_id: str, message: str) -> list[Instruction]:
        """The process of a trial has died, or could not be started."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        self.outstanding.pop(trial_id, None)
        progress.waits_for = ""
        if trial.status is Status.RUNNING:
            self._fail(trial, progress, message)
        return self._turn()

    def stop_trial(self, trial: Trial | str) -> list[Instruction] | None:
        """End a trial: when its present step is done if it runs, at once if not."""
        trial = self._by_id[trial] if isinstance(trial, str) else trial
        self._ask_to_stop(trial)
        return self._turn() if self._deciding is None and not self._instructions else None

    def stop_all(self) -> list[Instruction]:
        """End all trials, and make no further ones."""
        self._ask_all_to_stop()
        return self._turn()

    def abandon(self, trial_id: str) -> list[Instruction]:
        """End a running trial without waiting any longer for what it was asked."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        self.outstanding.pop(trial_id, None)
        progress.waits_for = ""
        if trial.status is Status.RUNNING:
            self._finish(trial, progress, is_hung=True)
        return self._turn()

    def add_trial(self, spec: ExperimentSpec, trial: Trial) -> list[Instruction]:
        """Take a trial that somebody else has made."""
        self.specs.setdefault(spec.name, spec)
        self._add(trial)
        return self._turn()

    def retry(self, trial_id: str, anew: bool) -> list[Instruction]:
        """Have a trial that failed run again: from its last checkpoint, or `anew`, without what it had reported."""
        trial, progress = self._by_id[trial_id], self._progress[trial_id]
        if trial.status is not Status.ERROR:
            return self._turn()
        trial.status, trial.failures, trial.error_message, trial.raised = Status.PENDING, 0, "", b""
        self._live[trial_id] = trial
        self._pending += 1
        self._may_start = True
        if anew:
            progress.state, progress.state_results = progress.first_state, 0
            trial.results, trial.last_result, trial.metrics = 0, {}, {}
        return self._turn()

    def on_damage(self, trial_id: str) -> list[Instruction]:
        """The checkpoint that a trial was to go on from is damaged: it goes on from the one before, or begins anew.

        What its process was asked stays asked; whoever tells this asks again.
        """
        progress = self._progress[trial_id]
        self._leave_donor(progress)
        if progress.state is not None:
            progress.book.forget(progress.state.path)
        kept = progress.book.newest
        progress.state, progress.state_results = (kept.saved, kept.results) if kept else (progress.first_state, 0)
        return self._turn()

    # -- what schedulers see (see `schedulers.base.Controller`) ----------------------------------------------------

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""
        return self.trials

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""
        return list(self._live.values())

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether there is room for the trial now."""
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        progress = self._progress.get(trial.trial_id)
        request = make_request(trial.resources)
        return self.room.fits(progress.demand if progress else total(request.bundles())) and (
            self.room.has_places(request)
        )

    def has_resources(self, resources: Any) -> bool:
        """Return whether there is room for so much now."""
        return self.has_resources_for_trial(Trial("", resources=resources))

    def may_make_trials(self) -> bool:
        """Return whether there may be further trials."""
        return not self.is_stopping and not self.algorithm.is_finished()

    def pause_trial(self, trial: Trial) -> None:
        """Pause a running trial when its present step is done."""
        if trial.status is Status.RUNNING:
            self._progress[trial.trial_id].pause_asked = True
            self._go_on_if_idle(trial)

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Have a trial go on from the newest state of another."""
        giver, copy = self._progress[donor.trial_id], Copy(trial.trial_id, config, tag)
        if donor.status is Status.RUNNING:
            giver.copies.append(copy)
            self._progress[trial.trial_id].donors += 1
            self._go_on_if_idle(donor)
        else:
            self._give_copy(giver, copy)

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Have a trial go on with other resources."""
        request = make_request(resources)
        progress = self._progress[trial.trial_id]
        trial.resources = request
        demand = total(request.bundles())
        if trial.status is Status.RUNNING:
            self.room.give_back(progress.demand)
            self.room.take(demand)
            progress.demand = demand
            progress.pause_asked = True
            trial.extra["resumes"] = True
        else:
            progress.demand = demand

    def write_line(self, file_name: str, line: str) -> None:
        """Append a line to a file in the experiment's directory."""
        self._instructions.append(Write(file_name, line))

    # -- beginning -------------------------------------------------------------------------------------------------

    def _turn(self) -> list[Instruction]:
        """Start what may be started, make new trials for what is free, and return all instructions."""
        if self._may_start or self._always_asks or not self._pending:
            while not self.is_stopping and (self._make_one() or self._start_one()):
                pass
            self._may_start = False
        instructions, self._instructions = self._instructions, []
        return instructions

    def _start_one(self) -> bool:
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        if self._running == len(self._live):
            return False
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is None or trial.status not in (Status.PENDING, Status.PAUSED):
            return False
        progress = self._progress[trial.trial_id]
        if progress.donors:  # it would go on from its own state, and report what is then thrown away
            return False
        if trial.status is Status.PENDING:
            self._pending -= 1
        else:
            self.algorithm.on_unpause(trial.trial_id)
        trial.status = Status.RUNNING
        self._running += 1
        self.room.take(progress.demand)
        self._instructions.append(Notify("trial_start", trial))
        skip = trial.results - progress.state_results
        self._ask(trial, progress, "train", Start(trial, progress.state, skip))
        return True

    def _make_one(self) -> bool:
        """Make a trial, if none waits to be started and one would find room."""
        if self._pending or self.algorithm.is_finished():
            return False
        if self.max_concurrent and self._running >= self.max_concurrent:
            return False
        if len(self.specs) == 1:
            request = next(iter(self.specs.values())).fixed_request
            if request is not None and not self.room.fits(total(request.bundles())) and self._running:
                return False
        trial = self.algorithm.next_trial()
        if trial is None:
            return False
        self._add(trial)
        return True

    def _add(self, trial: Trial) -> None:
        spec = self.specs[trial.extra["experiment"]]
        if trial.resources is None:
            trial.resources = spec.request_for(trial.config)
        policy = spec.checkpoints
        progress = Progress(
            spec,
            total(trial.resources.bundles()),
            CheckpointBook(policy.keep, policy.score_attribute, policy.lowest),
        )
        if spec.restore_path:
            progress.state = progress.first_state = Saved(0, spec.restore_path)
        self.trials.append(trial)
        self._by_id[trial.trial_id] = trial
        self._live[trial.trial_id] = trial
        self._progress[trial.trial_id] = progress
        self._pending += 1
        self._may_start = True
        self.scheduler.on_trial_add(self, trial)

    # -- after a kill ----------------------------------------------------------------------------------------------

    def adopt(self, fresh: TrialLoop) -> None:
        """Take the code of a loop that was made anew: what decides may have been mended since."""
        reload_code(self.algorithm, fresh.algorithm)
        reload_code(self.scheduler, fresh.scheduler)

    def forget_states_in_memory(self) -> None:
        """The states that were in memory are gone: trials go on from what they have on disk, or from the beginning."""
        for trial in self._live.values():
            progress = self._progress[trial.trial_id]
            if progress.state is None or not progress.state.is_in_memory:
                continue
            kept = progress.book.newest
            progress.state, progress.state_results = (kept.saved, kept.results) if kept else (progress.first_state, 0)

    def paths_in_use(self) -> set[str]:
        """Return the checkpoints on disk that are kept, or that a trial goes on from."""
        used = set()
        for trial in self.trials:
            progress = self._progress[trial.trial_id]
            states = [kept.saved for kept in progress.book.kept]
            states += [each for each in (progress.state, progress.first_state) if each is not None]
            if progress.donor is not None:
                states.append(progress.donor.saved)
            if progress.replacement is not None:
                states.append(progress.replacement.state)
            used |= {saved.path for saved in states if saved.path}
        return used

    # -- questions -------------------------------------------------------------------------------------------------

    def find(self, trial_id: str) -> Trial | None:
        """Return the trial with this id."""
        return self._by_id.get(trial_id)

    def progress_of(self, trial: Trial) -> Progress:
        """Return what is known of a trial beside what everybody sees."""
        return self._progress[trial.trial_id]

    def could_run(self, trial: Trial) -> bool:
        """Return whether all machines together have what a trial needs."""
        return self.room.could_fit(self._progress[trial.trial_id].demand) and self.room.has_places(trial.resources)

    @property
    def is_finished(self) -> bool:
        """Whether every trial has ended and there will be no other."""
        return not self._live and (self.is_stopping or self.algorithm.is_finished())

    @property
    def is_stuck(self) -> bool:
        """Whether nothing runs, and nothing will: trials wait that nobody starts, or none comes."""
        return not self.is_finished and not self.outstanding

    def why_stuck(self) -> str:
        """Say what is missing when nothing runs."""
        for trial in self._live.values():
            demand = self._progress[trial.trial_id].demand
            if not self.room.could_fit(demand):
                there = _listed(self.room.capacity)
                return f"trial {trial} needs {_listed(demand)}, and all machines together have {there}"
            if not self.room.has_places(trial.resources):
                wanted = " and ".join(map(_listed, trial.resources.bundles()))
                there = "; ".join(map(_listed, self.room.nodes))
                return f"trial {trial} needs {wanted} ({trial.resources.strategy}), and the machines have {there}"
        if self._live:
            return (
                f"{type(self.scheduler).__name__} starts none of the {len(self._live)} trials that are pending or "
                "paused, and there is room for them"
            )
        return "the searcher has no configuration just now, and no trial runs whose end could bring one"

    def validate(self) -> None:
        """Raise AssertionError where what must always be true is not."""
        running = [trial for trial in self.trials if trial.status is Status.RUNNING]
        assert self._running == len(running), (self._running, running)
        assert self._pending == sum(trial.status is Status.PENDING for trial in self.trials)
        assert set(self._live) == {trial.trial_id for trial in self.trials if not trial.has_ended}
        for trial in self.trials:
            progress = self._progress[trial.trial_id]
            assert bool(progress.waits_for) == (trial.trial_id in self.outstanding), trial
            assert trial.status is Status.RUNNING or not progress.waits_for, trial
            assert progress.state_results <= trial.results, trial
        used = total([self._progress[trial.trial_id].demand for trial in running])
        for name in {*used, *self.room.used}:
            assert abs(used.get(name, 0.0) - self.room.used.get(name, 0.0)) < 1e-6, (name, used, self.room.used)


def _listed(demand: Demand) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in sorted(demand.items())) or "nothing"
