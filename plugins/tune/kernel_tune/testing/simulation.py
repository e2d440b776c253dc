"""A simulated experiment: trials with known learning curves under a scheduler, without processes, clocks or files.

    from kernel_tune.schedulers import ASHAScheduler
    from kernel_tune.testing.simulation import simulate

    done = simulate(
        ASHAScheduler(max_t=27, reduction_factor=3),
        lambda config, iteration: config["height"] * (1 - 0.9**iteration),
        [{"height": height} for height in range(27)],
        iterations=27,
    )
    print(done.best_trial.config, done.iterations)

It simulates room for `slots` trials at once, saving and restoring, exploits, failures, and trials of different speed.
The order of events follows from the seed, so a run can be repeated exactly. After each event the invariants of an
experiment are checked (`Simulation.validate`).
"""

from __future__ import annotations

import copy
import heapq
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kernel_runs.reports import Report
from kernel_tune.errors import TuneError
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.testing.simulated_work import Curve, Event, SimulatedWork, Step, describe, need
from kernel_tune.trial import Status, Trial

_DECISIONS = (TrialScheduler.CONTINUE, TrialScheduler.PAUSE, TrialScheduler.STOP, TrialScheduler.NOOP)
_STORY = 25


class SimulationError(TuneError, AssertionError):
    """The scheduler broke a rule of schedulers. The message ends with the events before it."""


class Simulation:
    """A `Controller` that runs trials of these configurations in memory. See the module for an example.

    A trial reports what `curve(config, iteration)` or `step(config, state)`, which begins with a copy of `start`,
    returns: a number, which is the `metric`, or a dict. It ends after `iterations`. `seconds` is the duration of an
    iteration, a number or a function of the configuration; `jitter` (0 to 1) makes it longer at random by up to that
    part. A trial for which `fails(trial, iteration)` is true fails instead of reporting. `room` is the amount of each
    resource, by default `slots` CPUs; trials have `resources`, by default one CPU. The searcher makes at most
    `concurrent` trials that have not ended; None makes all at once. With `lazy` a trial is made only when there is room
    for it and none is pending, as in a real experiment. `check=False` omits `validate` after each event. Raises
    SimulationError unless exactly one of `curve` and `step` is given.
    """

    def __init__(
        self, scheduler: TrialScheduler, curve: Curve | None = None, configs: Iterable[dict[str, Any]] = (), *,
        step: Step | None = None, start: Any = None, slots: int = 4, room: Mapping[str, float] | None = None,
        resources: Mapping[str, float] | None = None, metric: str = "score", mode: str = "max", iterations: int = 100,
        seconds: float | Callable[[dict[str, Any]], float] = 1.0, jitter: float = 0.0, seed: int = 0,
        concurrent: int | None = None, lazy: bool = False, fails: Callable[[Trial, int], bool] | None = None,
        check: bool = True,
    ) -> None:  # fmt: skip
        if (curve is None) == (step is None):
            raise SimulationError("a simulation needs a curve or a step, and not both")
        self.scheduler = scheduler
        self.trials: list[Trial] = []
        self.lines: dict[str, list[str]] = {}
        """The lines that the scheduler has written, by file."""
        self.history: list[tuple[Any, ...]] = []
        """The events so far: time, event, trial id, and details of the event."""
        self.scores: dict[str, list[float]] = {}
        """The values of the metric that each trial has reported."""
        self.iterations = 0
        """The number of iterations of all trials."""
        self.now = 0.0
        """Seconds since the beginning."""
        self.scheduler_seconds = 0.0
        """Processor time of all calls of the scheduler's `on_trial_result`."""
        self._curve, self._step, self._start = curve, step, start
        self._configs = [copy.deepcopy(config) for config in configs]
        self._room = dict(room) if room is not None else {"cpu": slots}
        self._free = dict(self._room)
        self._resources = dict(resources) if resources is not None else {"cpu": 1}
        self._metric, self._mode, self._last = metric, mode, iterations
        self._seconds, self._jitter = seconds, jitter
        self._random = random.Random(seed)
        self._concurrent = concurrent
        self._lazy = lazy
        self._fails = fails
        self._check = check
        self._live: dict[str, Trial] = {}
        self._work: dict[str, SimulatedWork] = {}
        self._tags: dict[str, str] = {}
        self._starts: dict[str, int] = {}
        self._held: dict[str, dict[str, float]] = {}
        """The resources that running trials use."""
        self._events: list[Event] = []
        self._requests: list[tuple[Any, ...]] = []
        self._deciding: Trial | None = None
        scheduler.set_search_properties(metric, mode)

    # The interface of a scheduler: the contract `Controller`.

    def get_trials(self) -> Sequence[Trial]:
        """Return all trials, in the order in which they were made."""
        return self.trials

    def get_live_trials(self) -> Sequence[Trial]:
        """Return the trials that have not ended, in the order in which they were made."""
        return list(self._live.values())

    def has_resources_for_trial(self, trial: Trial) -> bool:
        """Return whether the resources of the trial are free."""
        return all(self._free.get(name, 0) >= amount for name, amount in need(trial).items())

    def has_resources(self, resources: Any) -> bool:
        """Return whether these resources are free."""
        return self.has_resources_for_trial(Trial("", resources=resources))

    def may_make_trials(self) -> bool:
        """Return whether configurations are left."""
        return bool(self._configs)

    def stop_trial(self, trial: Trial) -> None:
        """Request the end of a trial."""
        self._request("stop", trial)

    def pause_trial(self, trial: Trial) -> None:
        """Request that a running trial is paused."""
        self._request("pause", trial)

    def exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str = "") -> None:
        """Request that a trial continues from the state of another one."""
        self._request("exploit", trial, donor, copy.deepcopy(config), tag)

    def set_resources(self, trial: Trial, resources: Any) -> None:
        """Request that a trial continues with other resources."""
        self._request("set_resources", trial, resources)

    def write_line(self, file_name: str, line: str) -> None:
        """Add a line to `lines`."""
        self.lines.setdefault(file_name, []).append(line)

    # Running.

    def make_trials(self) -> None:
        """Make the trials that can be made, without starting any."""
        while self._make_one():
            pass

    def run(self, steps: int | None = None) -> Simulation:
        """Run until all trials have ended, or for a number of events. Return the simulation."""
        while (steps is None or steps > 0) and self.step():
            steps = None if steps is None else steps - 1
        return self

    def step(self) -> bool:
        """Make and start trials as far as possible, and let the next one report. Return False when all have ended.

        Raises `SimulationError` if trials are left that will never run.
        """
        while self._make_one() or self._start_one():
            pass
        while self._events:
            event = heapq.heappop(self._events)
            trial = self._live.get(event.trial_id)
            if trial is not None and self._starts[event.trial_id] == event.number and trial.status is Status.RUNNING:
                self.now = event.time
                self._report(trial)
                if self._check:
                    self.validate()
                return True
        if self._live or self._configs:
            self._wrong(f"nothing runs, and these wait for ever: {', '.join(map(describe, self._live.values()))}")
        return False

    def end(self, trial: Trial) -> None:
        """Stop a trial as a user would."""
        self._carry_out("stop", trial)
        self._carry_out_requests()

    def validate(self) -> None:
        """Raise `SimulationError` if an invariant of an experiment is violated."""
        for name, amount in self._room.items():
            held = sum(each.get(name, 0) for each in self._held.values())
            if held > amount or abs(amount - held - self._free[name]) > 1e-6:
                self._wrong(f"{held:g} of {amount:g} {name} are in use")
        for trial in self._live.values():
            if trial.has_ended or (trial.status is Status.RUNNING) != (trial.trial_id in self._held):
                self._wrong(f"{describe(trial)} has {self._held.get(trial.trial_id)}")
        if not isinstance(self.scheduler.debug_string(), str):
            self._wrong(f"debug_string returned {self.scheduler.debug_string()!r}, not a string")

    # Results.

    @property
    def best_trial(self) -> Trial:
        """The trial that has reported the best value of the metric."""
        return max(self.trials, key=lambda trial: self.best_score(trial) if self.scores[trial.trial_id] else -1e300)

    def best_score(self, trial: Trial | None = None) -> float:
        """Return the best value of the metric of a trial, or of all trials. It is negated if it is minimised."""
        sign = 1 if self._mode == "max" else -1
        scores = self.scores.values() if trial is None else [self.scores[trial.trial_id]]
        return max(sign * score for each in scores for score in each if score == score)

    def iterations_of(self, trial: Trial) -> int:
        """Return the number of results that a trial has reported."""
        return len(self.scores[trial.trial_id])

    # Implementation.

    def _make_one(self) -> bool:
        index = len(self.trials)
        if not self._configs or (self._concurrent is not None and len(self._live) >= self._concurrent):
            return False
        trial = Trial(
            "simulated", self._configs[0], f"{index:08x}", index=index, experiment_tag=f"{index}",
            resources=self._resources, name=f"simulated_{index:08x}",
        )  # fmt: skip
        pending = self._lazy and any(other.status is Status.PENDING for other in self._live.values())
        if pending or (self._lazy and not self.has_resources_for_trial(trial)):
            return False
        del self._configs[0]
        self.trials.append(trial)
        self._live[trial.trial_id] = trial
        self._work[trial.trial_id] = SimulatedWork(copy.deepcopy(self._start))
        self._tags[trial.trial_id] = trial.experiment_tag
        self._starts[trial.trial_id] = 0
        self.scores[trial.trial_id] = []
        self._note("add", trial)
        self.scheduler.on_trial_add(self, trial)
        self._carry_out_requests()
        return True

    def _start_one(self) -> bool:
        if not any(self._free.values()):
            return False
        trial = self.scheduler.choose_trial_to_run(self)
        self._carry_out_requests()
        if self._check and trial is not None and self.scheduler.choose_trial_to_run(self) is not trial:
            self._wrong(f"choose_trial_to_run returned {trial}, and another trial when it was asked again")
        if trial is None:
            return False
        if self._live.get(trial.trial_id) is not trial or trial.status not in (Status.PENDING, Status.PAUSED):
            self._wrong(f"choose_trial_to_run returned {describe(trial)}, which can't be started")
        if not self.has_resources_for_trial(trial):
            self._wrong(f"choose_trial_to_run returned {describe(trial)}, for which there is no room")
        self._note("start", trial)
        trial.status = Status.RUNNING
        self._hold(trial)
        self._plan(trial)
        return True

    def _plan(self, trial: Trial) -> None:
        """Let a running trial report after its next iteration."""
        self._starts[trial.trial_id] += 1
        event = Event(self.now + self._duration(trial), self._random.random(), trial.trial_id,
                       self._starts[trial.trial_id])  # fmt: skip
        heapq.heappush(self._events, event)

    def _duration(self, trial: Trial) -> float:
        seconds = self._seconds(trial.config) if callable(self._seconds) else self._seconds
        return seconds * (1 + self._jitter * self._random.random())

    def _report(self, trial: Trial) -> None:
        work = self._work[trial.trial_id]
        if self._fails is not None and self._fails(trial, work.iteration + 1):
            self._note("error", trial)
            self._leave(trial, Status.ERROR)
            self.scheduler.on_trial_error(self, trial)
        else:
            result = self._iterate(trial, work)
            self._note("result", trial, work.iteration, self.scores[trial.trial_id][-1])
            if work.iteration >= self._last:
                trial.last_result = result
                self._leave(trial, Status.TERMINATED)
                self.scheduler.on_trial_complete(self, trial, result)
            else:
                self._decide(trial, result)
        self._carry_out_requests()

    def _iterate(self, trial: Trial, work: SimulatedWork) -> Report:
        seconds = self._seconds(trial.config) if callable(self._seconds) else self._seconds
        work.iteration += 1
        work.seconds += seconds
        if self._step is not None:
            work.state, metrics = self._step(trial.config, work.state)
        else:
            assert self._curve is not None
            metrics = self._curve(trial.config, work.iteration)
        reported = dict(metrics) if isinstance(metrics, Mapping) else {self._metric: metrics}
        self.iterations += 1
        self.scores[trial.trial_id].append(reported.get(self._metric, float("nan")))
        return {
            "training_iteration": work.iteration, "time_this_iter_s": seconds, "time_total_s": work.seconds,
            "trial_id": trial.trial_id, "done": False, "config": trial.config, **reported,
        }  # fmt: skip

    def _decide(self, trial: Trial, result: Report) -> None:
        began = time.process_time()
        self._deciding = trial
        decision = self.scheduler.on_trial_result(self, trial, result)
        self._deciding = None
        self.scheduler_seconds += time.process_time() - began
        trial.last_result = result
        trial.results += 1
        if decision not in _DECISIONS:
            self._wrong(f"on_trial_result returned {decision!r} for {trial}, not one of {', '.join(_DECISIONS)}")
        if decision != TrialScheduler.CONTINUE:
            self._note(decision.lower(), trial)
        if decision == TrialScheduler.CONTINUE:
            self._plan(trial)
        elif decision == TrialScheduler.STOP:
            self._leave(trial, Status.TERMINATED)
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == TrialScheduler.PAUSE:
            self._release(trial)
            trial.status = Status.PAUSED

    def _request(self, what: str, trial: Trial, *details: Any) -> None:
        if trial is self._deciding and what in ("stop", "pause"):
            self._wrong(f"{what}_trial({trial}) was called while it is decided about: return {what.upper()} instead")
        self._requests.append((what, trial, *details))

    def _carry_out_requests(self) -> None:
        while self._requests:
            self._carry_out(*self._requests.pop(0))

    def _carry_out(self, what: str, trial: Trial, *details: Any) -> None:
        for each in (trial, *(detail for detail in details if isinstance(detail, Trial))):
            if each.trial_id not in self._live:
                self._wrong(f"{what} was asked for {describe(each)}, which has ended")
        self._note(what, trial, *details)
        getattr(self, f"_{what}")(trial, *details)

    def _stop(self, trial: Trial) -> None:
        was_running = trial.status is Status.RUNNING
        self._leave(trial, Status.TERMINATED)
        if was_running:
            self.scheduler.on_trial_complete(self, trial, trial.last_result)
        else:
            self.scheduler.on_trial_remove(self, trial)

    def _pause(self, trial: Trial) -> None:
        if trial.status is not Status.RUNNING:
            self._wrong(f"pause_trial was asked for {describe(trial)}")
        self._release(trial)
        trial.status = Status.PAUSED

    def _exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], tag: str) -> None:
        self._work[trial.trial_id] = copy.deepcopy(self._work[donor.trial_id])
        trial.config = config
        trial.experiment_tag = f"{self._tags[trial.trial_id]}@{tag}" if tag else self._tags[trial.trial_id]
        if trial.status is Status.RUNNING:
            self._plan(trial)

    def _set_resources(self, trial: Trial, resources: Any) -> None:
        trial.resources = resources
        if trial.status is Status.RUNNING:
            self._pause(trial)

    def _leave(self, trial: Trial, status: Status) -> None:
        self._release(trial)
        trial.status = status
        del self._live[trial.trial_id]

    def _hold(self, trial: Trial) -> None:
        held = self._held[trial.trial_id] = need(trial)
        for name, amount in held.items():
            self._free[name] -= amount

    def _release(self, trial: Trial) -> None:
        for name, amount in self._held.pop(trial.trial_id, {}).items():
            self._free[name] += amount

    def _note(self, what: str, trial: Trial, *details: Any) -> None:
        shown = [detail.trial_id if isinstance(detail, Trial) else detail for detail in details]
        self.history.append((round(self.now, 9), what, trial.trial_id, *shown))

    def _wrong(self, what: str) -> None:
        story = "\n".join(f"  {' '.join(map(str, event))}" for event in self.history[-_STORY:])
        raise SimulationError(f"{type(self.scheduler).__name__}: {what}. What happened before:\n{story}")


def simulate(
    scheduler: TrialScheduler, curve: Curve | None = None, configs: Iterable[dict[str, Any]] = (), **options: Any
) -> Simulation:
    """Run a `Simulation` with these arguments until all trials have ended, and return it."""
    return Simulation(scheduler, curve, configs, **options).run()
