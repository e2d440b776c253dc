"""The conformance suite for trial schedulers.

    from kernel_tune.testing.schedulers import SchedulerConformance

    class TestMine(SchedulerConformance):
        make_scheduler = staticmethod(MyScheduler)

Run it with pytest. `make_scheduler` is called without arguments, and returns a new scheduler without a metric and a
mode. Set class attributes for what your scheduler does not promise, such as `needs_metric = False`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernel_tune.errors import MetricError
from kernel_tune.schedulers.base import TrialScheduler
from kernel_tune.testing.simulated_work import Metrics
from kernel_tune.testing.simulation import Simulation

METRIC = "score"


class SchedulerConformance:
    """The tests of every scheduler: what the trial loop relies on, in simulated experiments."""

    make_scheduler: Callable[[], TrialScheduler]

    needs_metric = True
    """Whether a result without the metric raises `MetricError`."""
    most_trials = 40
    """The largest number of trials of an experiment."""
    flat_cost = True
    """Whether the cost of a result does not depend on the number of trials."""
    most_microseconds = 1000.0
    """Processor time in microseconds that a result may cost on a slow machine."""
    iterations = 30
    seeds: Sequence[int] = range(4)
    """The seeds of the random experiments. A failure shows the one that repeats it."""

    def config(self, index: int, count: int) -> dict[str, Any]:
        """Return the configuration of a trial."""
        return {"x": index / count}

    def curve(self, config: dict[str, Any], iteration: int) -> Metrics:
        """Return the metrics that a trial reports."""
        return {METRIC: config.get("x", 0.5) * (1 - 0.9**iteration)}

    def simulation(self, count: int | None = None, **options: Any) -> Simulation:
        """Return an experiment with a new scheduler, which has not begun."""
        count = self.most_trials if count is None else min(count, self.most_trials)
        configs = [self.config(index, count) for index in range(count)]
        options.setdefault("metric", METRIC)
        curve = options.pop("curve", self.curve)
        return Simulation(type(self).make_scheduler(), curve, configs, iterations=self.iterations, **options)

    def random_options(self, seed: int) -> dict[str, Any]:
        """Return random circumstances of an experiment."""
        draw = random.Random(seed)
        unlucky = draw.randrange(2, 9)
        options: dict[str, Any] = {
            "count": draw.randrange(1, self.most_trials + 1), "slots": draw.randrange(1, 9), "seed": seed,
            "jitter": draw.random(), "concurrent": draw.choice([None, None, draw.randrange(1, 12)]),
            "lazy": draw.random() < 0.5,
        }  # fmt: skip
        if draw.random() < 0.5:
            options["fails"] = lambda trial, iteration: trial.index % unlucky == 1 and iteration == unlucky
        if draw.random() < 0.5:
            options["seconds"] = lambda config: 0.5 + config.get("x", 0.5)
        return options

    def test_all_trials_end(self) -> None:
        for seed in self.seeds:
            try:
                self.simulation(**self.random_options(seed)).run()
            except AssertionError as broken:
                raise AssertionError(f"with seed {seed}: {broken}") from broken

    def test_one_trial_alone_ends(self) -> None:
        done = self.simulation(1, slots=1).run()
        assert done.trials[0].has_ended

    def test_the_same_calls_give_the_same_answers(self) -> None:
        for seed in self.seeds[:2]:
            first, second = (self.simulation(**self.random_options(seed)).run() for _ in range(2))
            assert first.history == second.history, f"with seed {seed}: a scheduler must decide by its calls alone"
            assert first.lines == second.lines

    def test_global_random_state_does_not_matter_and_is_left_alone(self) -> None:
        random.seed(1)
        first = self.simulation(**self.random_options(0)).run()
        random.seed(2)
        expected = random.Random(2).random()
        second = self.simulation(**self.random_options(0)).run()
        assert first.history == second.history, "a scheduler must draw from a generator of its own"
        assert random.random() == expected, "a scheduler must leave the global random state as it is"

    def test_minimising_is_maximising_the_negative(self) -> None:
        def negative(config: dict[str, Any], iteration: int) -> Metrics:
            return {METRIC: -_metric(self.curve(config, iteration))}

        high = self.simulation(slots=3, mode="max").run()
        low = self.simulation(slots=3, mode="min", curve=negative).run()
        assert [each[:3] for each in high.history] == [each[:3] for each in low.history]

    def test_metric_and_mode_of_the_experiment_are_taken_once(self) -> None:
        scheduler = type(self).make_scheduler()
        assert scheduler.set_search_properties("loss", "min")
        assert (scheduler.metric, scheduler.mode) == ("loss", "min")
        assert not scheduler.set_search_properties("accuracy", "max")
        assert (scheduler.metric, scheduler.mode) == ("loss", "min")

    def test_nan_stops_nobody_else(self) -> None:
        def sometimes_nan(config: dict[str, Any], iteration: int) -> Metrics:
            known = _metric(self.curve(config, iteration))
            return {METRIC: math.nan if iteration % 3 == 0 and config.get("x", 0.5) < 0.5 else known}

        def always_nan(config: dict[str, Any], iteration: int) -> Metrics:
            return {METRIC: math.nan}

        assert all(trial.has_ended for trial in self.simulation(curve=sometimes_nan).run().trials)
        assert all(trial.has_ended for trial in self.simulation(curve=always_nan).run().trials)

    def test_a_result_without_the_metric_says_so(self) -> None:
        experiment = self.simulation(curve=lambda config, iteration: {"other": 1.0})
        if not self.needs_metric:
            experiment.run()
            return
        try:
            experiment.run()
        except MetricError as error:
            assert METRIC in str(error) and "other" in str(error), (
                f"{error} names not what is missing and what is there"
            )
            assert any(str(trial) in str(error) for trial in experiment.trials), f"{error} does not name the trial"
        else:
            raise AssertionError("a result without the metric must raise MetricError")

    def test_trials_may_be_ended_by_a_person(self) -> None:
        experiment = self.simulation(slots=2, seed=3)
        draw = random.Random(3)
        while experiment.step():
            live = experiment.get_live_trials()
            if live and draw.random() < 0.1:
                experiment.end(draw.choice(live))
        assert all(trial.has_ended for trial in experiment.trials)

    def test_saved_state_goes_on_as_if_nothing_had_been(self, tmp_path: Path) -> None:
        whole = self.simulation(slots=3).run()
        parted = self.simulation(slots=3).run(steps=len(whole.history) // 5)
        parted.scheduler.save(str(tmp_path / "state"))
        parted.scheduler = type(self).make_scheduler()
        parted.scheduler.restore(str(tmp_path / "state"))
        assert parted.run().history == whole.history

    def test_debug_string_is_for_people(self) -> None:
        experiment = self.simulation()
        before = experiment.scheduler.debug_string()
        after = experiment.run().scheduler.debug_string()
        assert before.strip() and after.strip()

    def test_a_result_is_cheap(self) -> None:
        if self.most_trials < 40:
            return
        few = min(self._microseconds(40) for _ in range(2))
        assert few <= self.most_microseconds, f"a result costs {few:.0f} us"
        if self.flat_cost:
            many = min(self._microseconds(240) for _ in range(2))
            assert many <= 8 * few + 20, f"a result costs {few:.1f} us with 40 trials, {many:.1f} us with 240"

    def _microseconds(self, count: int) -> float:
        configs = [self.config(index, count) for index in range(count)]
        scheduler = type(self).make_scheduler()
        done = Simulation(scheduler, self.curve, configs, iterations=4, slots=count, metric=METRIC, check=False).run()
        return done.scheduler_seconds / max(done.iterations, 1) * 1e6


def _metric(metrics: Metrics) -> float:
    return float(metrics[METRIC]) if not isinstance(metrics, (int, float)) else float(metrics)
