"""The conformance suite for searchers.

    from kernel_tune.testing.searchers import SearcherConformance

    class TestMine(SearcherConformance):
        make_searcher = staticmethod(MySearch)

`make_searcher` is called with `metric`, `mode` and `seed`, and in one test with `points_to_evaluate`; the space is
passed by `set_search_properties`. Run it with pytest.
"""

from __future__ import annotations

import copy
import math
import pickle
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel_tune import search_space as tune
from kernel_tune.searchers.base import FINISHED, Searcher

METRIC = "loss"


class Play:
    """Simulates the trial loop: keeps up to `width` trials running, and ends them in random order with `outcome`."""

    def __init__(self, searcher: Searcher, width: int = 1, seed: int = 0, prefix: str = "trial") -> None:
        self.searcher = searcher
        self.width = width
        self.calls: list[tuple[Any, ...]] = []
        self.configs: list[Any] = []
        self.finished = False
        self._random = random.Random(seed)
        self._running: dict[str, dict[str, Any]] = {}
        self._prefix = prefix

    def run(self, trials: int, outcome: Callable[[int, dict[str, Any]], tuple[Any, bool]]) -> list[Any]:
        """Run further trials to their ends. Return the configurations that were suggested."""
        first = len(self.configs)
        refused = 0
        while not self.finished and (len(self.configs) - first < trials or self._running):
            if len(self.configs) - first < trials and len(self._running) < self.width:
                before = len(self._running)
                self._start()
                if len(self._running) > before:
                    continue
                refused += 1
                assert self._running or self.finished or refused < 100, "with nothing running, it suggests nothing"
            if self._running:
                self._end(outcome)
        return self.configs[first:]

    def _start(self) -> None:
        trial_id = f"{self._prefix}{len(self.calls)}"
        config = self.searcher.suggest(trial_id)
        self.calls.append(("suggest", trial_id))
        if config is None or config == FINISHED:
            self.finished = config == FINISHED
            return
        assert isinstance(config, dict), f"suggest returned {config!r}: a dict, None or FINISHED is expected"
        self.configs.append(copy.deepcopy(config))
        self._running[trial_id] = config

    def _end(self, outcome: Callable[[int, dict[str, Any]], tuple[Any, bool]]) -> None:
        trial_id = self._random.choice(sorted(self._running))
        config = self._running.pop(trial_id)
        result, error = outcome(len(self.calls), config)
        if result is not None:
            for iteration in (1, 2, 3):
                report = {**result, "training_iteration": iteration}
                self.calls.append(("result", trial_id, report))
                self.searcher.on_trial_result(trial_id, copy.deepcopy(report))
        self.calls.append(("complete", trial_id, result, error))
        self.searcher.on_trial_complete(trial_id, result=copy.deepcopy(result), error=error)


def replay(searcher: Searcher, calls: list[tuple[Any, ...]]) -> list[Any]:
    """Repeat the calls of a play. Return the configurations that the searcher suggests."""
    configs = []
    for kind, trial_id, *rest in calls:
        if kind == "suggest":
            config = searcher.suggest(trial_id)
            configs += [copy.deepcopy(config)] if isinstance(config, dict) else []
        elif kind == "result":
            searcher.on_trial_result(trial_id, copy.deepcopy(rest[0]))
        else:
            searcher.on_trial_complete(trial_id, result=copy.deepcopy(rest[0]), error=rest[1])
    return configs


class SearcherConformance:
    """The tests of every searcher."""

    make_searcher: Callable[..., Searcher]

    space: dict[str, Any] = {  # noqa: RUF012 - never changed
        "rate": tune.loguniform(1e-4, 1),
        "units": tune.randint(8, 65),
        "dropout": tune.quniform(0, 0.5, 0.1),
        "shift": tune.uniform(-1, 1),
        "kind": tune.choice(["a", "b", "c"]),
        "nested": {"fixed": 3, "values": [tune.uniform(0, 1), tune.choice([True, None])]},
    }
    """A space that the searcher supports, for all other tests."""
    conditional_space: dict[str, Any] | None = {  # noqa: RUF012 - never changed
        "scale": tune.uniform(0, 1),
        "model": tune.choice(
            [{"kind": "tree", "depth": tune.randint(1, 9)}, {"kind": "net", "rate": tune.loguniform(1e-4, 1)}]
        ),
    }
    """A space with options that have domains of their own; None if the searcher does not support any."""
    point: dict[str, Any] | None = {  # noqa: RUF012 - never changed
        "rate": 0.01, "units": 16, "dropout": 0.2, "shift": 0.5, "kind": "b",
        "nested": {"fixed": 3, "values": [0.25, None]},
    }  # fmt: skip
    """A configuration of `space` for `points_to_evaluate`; None if the searcher has no such argument."""
    trials = 30
    """The number of trials of a play."""

    def searcher(self, seed: int = 1, space: dict[str, Any] | None = None, **options: Any) -> Searcher:
        """Return a new searcher with its space."""
        made = type(self).make_searcher(metric=METRIC, mode="min", seed=seed, **options)
        space = self.space if space is None else space
        assert made.set_search_properties(METRIC, "min", space, num_samples=self.trials), "it did not take the space"
        return made

    @staticmethod
    def loss(number: int, config: dict[str, Any]) -> tuple[Any, bool]:
        """Return a loss that depends on all chosen values."""
        text = repr(sorted(config.items(), key=lambda item: item[0]))
        return {METRIC: abs(hash_of(text)) + config.get("shift", 0.0) ** 2}, False

    @staticmethod
    def chaos(number: int, config: dict[str, Any]) -> tuple[Any, bool]:
        """Return losses, and everything else that may come instead."""
        odd: list[tuple[Any, bool]] = [
            ({METRIC: math.nan}, False), ({METRIC: math.inf}, False), ({METRIC: -math.inf}, False), ({}, False),
            ({METRIC: None}, False), ({METRIC: "text"}, False), (None, True), (None, False), ({METRIC: 1.0}, True),
        ]  # fmt: skip
        return odd[number % len(odd)] if number % 2 else ({METRIC: float(number)}, False)

    def test_is_a_searcher_with_metric_and_mode(self) -> None:
        searcher = self.searcher()
        assert isinstance(searcher, Searcher), "a searcher is a subclass of kernel_tune.searchers.Searcher"
        assert (searcher.metric, searcher.mode) == (METRIC, "min")

    def test_takes_metric_and_mode_of_the_experiment(self) -> None:
        searcher = type(self).make_searcher(seed=1)
        searcher.set_search_properties("accuracy", "min", self.space)
        assert (searcher.metric, searcher.mode) == ("accuracy", "min")

    def test_configurations_are_of_the_space(self) -> None:
        for config in Play(self.searcher(), width=3).run(self.trials, self.loss):
            check_inside(self.space, config, "")

    def test_conditional_configurations_are_of_the_space(self) -> None:
        if self.conditional_space is None:
            return
        configs = Play(self.searcher(space=self.conditional_space), width=3).run(self.trials, self.loss)
        for config in configs:
            check_inside(self.conditional_space, config, "")

    def test_the_same_calls_give_the_same_answers(self) -> None:
        play = Play(self.searcher(seed=5), width=4)
        play.run(self.trials, self.chaos)
        assert replay(self.searcher(seed=5), play.calls) == play.configs, "the same calls gave other configurations"

    def test_the_seed_decides(self) -> None:
        if self.space_is_a_grid():
            return
        one, other = (Play(self.searcher(seed=seed)).run(15, self.loss) for seed in (1, 2))
        assert one != other, "another seed gave the same configurations: what is random must come from the seed"

    def test_global_random_state_makes_no_difference(self) -> None:
        random.seed(1)
        one = Play(self.searcher()).run(15, self.loss)
        random.seed(2)
        state = random.getstate()
        assert Play(self.searcher()).run(15, self.loss) == one, "it draws from the global random state"
        assert random.getstate() == state, "it changes the global random state"

    def test_goes_on_from_a_saved_state(self) -> None:
        searcher = self.searcher()
        Play(searcher, width=3).run(self.trials // 2, self.loss)
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "searcher")
            searcher.save(path)
            restored = self.searcher(seed=99)
            restored.restore(path)
        expected = Play(searcher, width=3, seed=4, prefix="next").run(self.trials // 2, self.loss)
        assert Play(restored, width=3, seed=4, prefix="next").run(self.trials // 2, self.loss) == expected

    def test_goes_on_from_a_state_with_running_trials(self) -> None:
        searcher = self.searcher()
        configs = {f"trial{n}": searcher.suggest(f"trial{n}") for n in range(4)}
        restored = self.searcher(seed=99)
        restored.set_state(pickle.loads(pickle.dumps(searcher.get_state())))
        for one in (searcher, restored):
            for number, trial_id in enumerate(configs):
                if isinstance(configs[trial_id], dict):
                    one.on_trial_result(trial_id, {METRIC: float(number)})
                    one.on_trial_complete(trial_id, {METRIC: float(number)})
        assert Play(restored).run(10, self.loss) == Play(searcher).run(10, self.loss)

    def test_survives_failures_and_metrics_that_are_no_numbers(self) -> None:
        configs = Play(self.searcher(), width=3).run(self.trials, self.chaos)
        assert configs, "it suggested nothing"

    def test_survives_nothing_but_failures(self) -> None:
        assert Play(self.searcher(), width=2).run(self.trials, lambda number, config: (None, True))
        assert Play(self.searcher(), width=2).run(self.trials, lambda number, config: ({METRIC: math.nan}, False))
        assert Play(self.searcher(), width=2).run(self.trials, lambda number, config: ({METRIC: 1.0}, False))

    def test_trials_that_it_does_not_know_are_nothing_to_it(self) -> None:
        searcher, other = self.searcher(), self.searcher()
        searcher.on_trial_result("by hand", {METRIC: 0.0})
        searcher.on_trial_complete("by hand", {METRIC: 0.0})
        searcher.on_trial_complete("by hand too", None, error=True)
        assert Play(searcher).run(5, self.loss) == Play(other).run(5, self.loss)

    def test_many_trials_may_overlap(self) -> None:
        configs = Play(self.searcher(), width=16).run(self.trials, self.loss)
        assert configs and (self.space_is_a_grid() or len({repr(c) for c in configs}) >= len(configs) // 2)

    def test_finished_is_for_ever(self) -> None:
        searcher = self.searcher()
        play = Play(searcher, width=2)
        play.run(self.trials, self.loss)
        if play.finished:
            assert all(searcher.suggest(f"late{n}") == FINISHED for n in range(3)), "after FINISHED came something else"

    def test_configurations_may_be_changed(self) -> None:
        searcher, other = self.searcher(), self.searcher()
        for number in range(5):
            mine, theirs = searcher.suggest(str(number)), other.suggest(str(number))
            assert mine == theirs
            if isinstance(mine, dict):
                mine.clear()
            for one in (searcher, other):
                one.on_trial_complete(str(number), {METRIC: float(number)})

    def test_points_to_evaluate_come_first(self) -> None:
        if self.point is None:
            return
        configs = Play(self.searcher(points_to_evaluate=[self.point, self.point])).run(5, self.loss)
        assert configs[:2] == [self.point, self.point]

    def test_constants_alone_are_a_space(self) -> None:
        searcher = self.searcher(space={"fixed": 3})
        assert searcher.suggest("one") == {"fixed": 3}

    def space_is_a_grid(self) -> bool:
        """Return whether the seed makes no difference. Override it in that case."""
        return False


def hash_of(text: str) -> float:
    """Return a number from 0 to 1 that depends on a text, the same in every process."""
    return random.Random(text).random()


def check_inside(space: Any, value: Any, where: str) -> None:
    """Fail if a value is not in a space."""
    if isinstance(space, tune.Categorical) and has_domains(space):
        assert any(is_inside(option, value, where) for option in space.categories), f"{where} is {value!r}"
    elif isinstance(space, tune.Domain):
        assert space.is_valid(value), f"{where} is {value!r}, which is not in {space.domain_str}"
    elif isinstance(space, dict) and set(space) != {"grid_search"}:
        assert isinstance(value, dict) and value.keys() == space.keys(), f"{where} is {value!r}"
        for key in space:
            check_inside(space[key], value[key], f"{where}/{key}")
    elif isinstance(space, dict):
        assert value in space["grid_search"], f"{where} is {value!r}"
    elif isinstance(space, (list, tuple)):
        assert type(value) is type(space) and len(value) == len(space), f"{where} is {value!r}"
        for number, inner in enumerate(space):
            check_inside(inner, value[number], f"{where}/{number}")
    else:
        assert value == space, f"{where} is {value!r}: it should be {space!r}"


def is_inside(space: Any, value: Any, where: str) -> bool:
    """Return whether a value is in a space."""
    try:
        check_inside(space, value, where)
    except AssertionError:
        return False
    return True


def has_domains(choice: tune.Categorical) -> bool:
    """Return whether an option of a choice has domains of its own."""
    return any(isinstance(option, (dict, list, tuple)) for option in choice.categories)
