"""Simulated processes of trials: they carry out the instructions of a real trial loop, and can be killed any time."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kernel_tune.execution.generation import SearchGenerator, TrialMaker
from kernel_tune.execution.instructions import Continue, Instruction, LoadState, Notify, Save, Start, Stop
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.spec import CheckpointPolicy, ExperimentSpec
from kernel_tune.trainable.orders import Answer, Saved

Metric = Callable[[dict[str, Any], float, int], float]


@dataclass
class TrialBody:
    """Holds the state of a trial's process: a number that grows with each iteration, depending on the configuration."""

    config: dict[str, Any]
    iteration: int = 0
    state: float = 0.0
    skip: int = 0


@dataclass
class TrialWorld:
    """Trials of `length` iterations each. `order` chooses which outstanding trial answers next."""

    loop: TrialLoop
    length: int
    metric: Metric
    every: int = 0
    order: Callable[[list[str]], str] = field(default=lambda names: names[0])
    fails: Callable[[str, int], bool] = field(default=lambda trial_id, iteration: False)
    bodies: dict[str, TrialBody] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    history: dict[str, list[float]] = field(default_factory=dict)
    most_running: int = 0

    def tell(self, event: str, *arguments: Any) -> None:
        """Pass an event to the loop, and carry out its instructions."""
        self.log.append((event, copy.deepcopy(arguments)))
        self.carry_out(getattr(self.loop, event)(*arguments))

    def carry_out(self, instructions: list[Instruction], alive: bool = True) -> None:
        """Carry out instructions. Without `alive`, only those about callbacks."""
        for each in instructions:
            trial_id = each.trial.trial_id if hasattr(each, "trial") else ""
            if isinstance(each, Notify):
                if each.event == "trial_result":
                    self.history.setdefault(trial_id, []).extend(result["score"] for result in each.results)
            elif not alive:
                continue
            elif isinstance(each, Start):
                self.bodies[trial_id] = body = TrialBody(dict(each.trial.config), skip=each.skip)
                self._restore(body, each.state)
                self.asked[trial_id] = "train"
            elif isinstance(each, LoadState):
                self.bodies[trial_id] = body = TrialBody(dict(each.trial.config))
                self._restore(body, each.state)
                self.asked[trial_id] = "train"
            elif isinstance(each, Continue):
                self._have_body(trial_id)
                self.asked[trial_id] = "train"
            elif isinstance(each, Save):
                self._have_body(trial_id)
                self.asked[trial_id] = each.where
            elif isinstance(each, Stop):
                self.bodies.pop(trial_id, None)
        if alive:
            self.loop.validate()
            assert set(self.loop.outstanding) <= set(self.bodies)
            self.most_running = max(self.most_running, len(self.bodies))

    def _have_body(self, trial_id: str) -> None:
        """Create the process of a trial that was waiting when everything was killed."""
        if trial_id in self.bodies:
            return
        trial = self.loop.find(trial_id)
        assert trial is not None
        progress = self.loop.progress_of(trial)
        body = self.bodies[trial_id] = TrialBody(dict(trial.config), skip=trial.results - progress.state_results)
        self._restore(body, progress.state)

    def _restore(self, body: TrialBody, saved: Saved | None) -> None:
        if saved is not None:
            state, iteration = (saved.path or saved.data).split(":")
            body.state, body.iteration = float(state), int(iteration)

    def step(self) -> None:
        """Let one trial answer."""
        trial_id = self.order(list(self.loop.outstanding))
        body, what = self.bodies[trial_id], self.asked[trial_id]
        answer = Answer()
        if what == "train":
            self._train(trial_id, body, answer)
        while body.skip:
            self._iterate(body)
            body.skip -= 1
        if what != "train":
            text = f"{body.state!r}:{body.iteration}"
            answer.state = Saved(body.iteration, data=text) if what == "memory" else Saved(body.iteration, text)
        self.tell("on_answer", trial_id, answer)

    def _iterate(self, body: TrialBody) -> None:
        body.iteration += 1
        body.state += self.metric(body.config, body.state, body.iteration)

    def _train(self, trial_id: str, body: TrialBody, answer: Answer) -> None:
        while body.skip:
            self._iterate(body)
            body.skip -= 1
        if self.fails(trial_id, body.iteration):
            answer.error = "ValueError: as it was told to"
            return
        self._iterate(body)
        answer.ended = body.iteration >= self.length
        answer.results.append({"training_iteration": body.iteration, "score": body.state, "done": answer.ended})
        if self.every and body.iteration % self.every == 0:
            answer.saved.append((0, Saved(body.iteration, f"{body.state!r}:{body.iteration}")))

    def run(self, steps: int = 1_000_000) -> bool:
        """Run until all trials have ended, or for a number of steps. Return whether all have ended."""
        for _ in range(steps):
            if self.loop.is_finished:
                return True
            assert self.loop.outstanding, self.loop.why_stuck()
            self.step()
        return self.loop.is_finished

    def outcome(self) -> list[Any]:
        """Return everything that must be the same in two runs."""
        return [
            (trial.trial_id, trial.config, str(trial.status), trial.results, self.history.get(trial.trial_id))
            for trial in self.loop.trials
        ]


def make_world(searcher: Any, scheduler: Any, space: dict[str, Any], metric: Metric, samples: int = 8, length: int = 9,
               cpus: int = 3, every: int = 0, max_failures: int = 0, **more: Any) -> TrialWorld:  # fmt: skip
    """Return a world whose trials have begun."""
    spec = ExperimentSpec(
        "test", "body", "/nowhere", space=space, num_samples=samples, metric="score", mode="max", is_function=False,
        resources={"cpu": 1}, checkpoints=CheckpointPolicy(every=every), max_failures=max_failures,
    )  # fmt: skip
    scheduler.set_search_properties("score", "max")
    algorithm = SearchGenerator(searcher, spec, TrialMaker(5))
    world = TrialWorld(TrialLoop([spec], algorithm, scheduler), length, metric, every, **more)
    world.tell("set_capacity", {"CPU": cpus})
    return world


def killed_and_resumed(make: Callable[[], TrialWorld], at: int, snapshot_at: int) -> TrialWorld:
    """Run until step `at`, lose everything but the log and a snapshot of step `snapshot_at`, and continue from them."""
    first = make()
    snapshot, written, offset = pickle.dumps(first.loop), copy.deepcopy(first.history), len(first.log)
    for step in range(at):
        if step == snapshot_at:
            snapshot, written, offset = pickle.dumps(first.loop), copy.deepcopy(first.history), len(first.log)
        if first.run(1):
            break
    second = make()
    second.loop, second.history = pickle.loads(snapshot), written
    second.bodies, second.asked, second.log = {}, {}, []
    for event, arguments in copy.deepcopy(first.log[offset:]):
        answers = [each for each in arguments if isinstance(each, Answer)]
        for answer in answers:
            if answer.state is not None and answer.state.is_in_memory:
                answer.state.data = None
        second.carry_out(getattr(second.loop, event)(*arguments), alive=False)
    second.loop.forget_states_in_memory()
    for trial_id in list(second.loop.outstanding):
        trial = second.loop.find(trial_id)
        assert trial is not None
        second._have_body(trial_id)
        second.asked[trial_id] = second.loop.progress_of(trial).saves_to or "train"
    second.run()
    return second


def at_random(seed: int) -> Callable[[list[str]], str]:
    """Return a random order of answers, which is the same for the same seed."""
    return random.Random(seed).choice
