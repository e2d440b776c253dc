"""Schedulers under the real trial loop: populations and brackets fill up however little room there is."""

from __future__ import annotations

import random

import pytest
from kernel_tune import search_space
from kernel_tune.execution.generation import SearchGenerator, TrialMaker
from kernel_tune.execution.instructions import LoadState, Save, Start
from kernel_tune.execution.loop import TrialLoop
from kernel_tune.execution.resources import make_request
from kernel_tune.execution.spec import ExperimentSpec
from kernel_tune.schedulers import (
    DistributeResources,
    FIFOScheduler,
    HyperBandForBOHB,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
)
from kernel_tune.schedulers.pbt_policy import Exploit
from kernel_tune.searchers import BasicVariantGenerator, BOHBSearch, ConcurrencyLimiter, GridSearch, TPESearch
from kernel_tune.testing.world import at_random, make_world
from kernel_tune.trainable.orders import Answer, Saved
from kernel_tune.trial import Trial


class Play:
    """Carries out what the loop says: a trial reports its `x` at every iteration, and its state is the iteration."""

    def __init__(self, scheduler, cpus, samples, length, searcher=None):
        spec = ExperimentSpec(
            "play", "body", "/nowhere", space={"x": search_space.uniform(0, 1)}, num_samples=samples, metric="score",
            mode="max", is_function=False, resources={"cpu": 1},
        )  # fmt: skip
        scheduler.set_search_properties("score", "max")
        searcher = searcher or BasicVariantGenerator(random_state=1)
        self.loop = TrialLoop([spec], SearchGenerator(searcher, spec, TrialMaker(5)), scheduler)
        self.length = length
        self.iterations, self.seen, self.asked = {}, {}, {}
        self.carry_out(self.loop.set_capacity({"CPU": cpus}))

    def carry_out(self, instructions):
        for each in instructions:
            if isinstance(each, (Start, LoadState)):
                self.iterations[each.trial.trial_id] = each.state.iteration if each.state else 0
            if hasattr(each, "trial"):
                self.asked[each.trial.trial_id] = each
        self.loop.validate()

    def step(self):
        trial = self.loop.find(next(iter(self.loop.outstanding)))
        name = trial.trial_id
        if isinstance(self.asked[name], Save):
            answer = Answer(state=Saved(self.iterations[name], path="there"))
        else:
            at = self.iterations[name] = self.iterations[name] + 1
            self.seen.setdefault(name, []).append(trial.config["x"])
            result = {"training_iteration": at, "score": trial.config["x"], "done": at >= self.length}
            answer = Answer(results=[result], ended=at >= self.length)
        self.carry_out(self.loop.on_answer(name, answer))

    def run(self, steps=5000):
        while steps and not self.loop.is_finished:
            assert not self.loop.is_stuck, self.loop.why_stuck()
            self.step()
            steps -= 1
        return self


def pbt(**arguments):
    arguments = {
        "hyperparam_mutations": {"x": search_space.uniform(0, 1)}, "perturbation_interval": 2, **arguments
    }  # fmt: skip
    return PopulationBasedTraining("training_iteration", **arguments)


@pytest.mark.parametrize("cpus", [1, 3, 20])
@pytest.mark.parametrize("synch", [False, True])
def test_a_whole_population_takes_turns(cpus, synch):
    play = Play(pbt(synch=synch, quantile_fraction=0), cpus, samples=6, length=9)
    for _ in range(500):
        if len(play.loop.trials) == 6 and all(trial.results >= 2 for trial in play.loop.trials):
            break
        play.step()
    assert max(trial.results for trial in play.loop.trials) <= 4, "nobody runs ahead while others have not begun"
    assert all(trial.has_ended for trial in play.run().loop.trials)


@pytest.mark.parametrize("cpus", [1, 2, 20])
def test_brackets_are_filled_before_they_are_halved(cpus):
    play = Play(HyperBandForBOHB(max_t=9), cpus, samples=9, length=20).run()
    assert sorted(trial.results for trial in play.loop.trials) == [1] * 6 + [3] * 2 + [9]
    best = max(play.loop.trials, key=lambda trial: trial.config["x"])
    assert best.results == 9
    play = Play(HyperBandScheduler(max_t=9), cpus, samples=30, length=20).run()
    assert all(trial.has_ended for trial in play.loop.trials)


def test_trials_go_on_from_the_states_of_better_ones():
    play = Play(pbt(seed=2), 4, samples=4, length=20).run()
    changed = [trial for trial in play.loop.trials if "@perturbed[x=" in trial.experiment_tag]
    assert changed and all(trial.experiment_tag.count("@") == 1 for trial in changed)
    assert all(len(set(play.seen[trial.trial_id])) > 1 for trial in changed)


@pytest.mark.parametrize("saves_each", [True, False])
@pytest.mark.parametrize("cpus", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_synchronously_the_worst_go_on_from_the_best_at_the_first_chance(saves_each: bool, cpus: int, seed: int):
    """Whoever answers first: nobody runs on from its own state while the best one is still saving for it."""
    values = random.Random(seed).sample([20, 30, 40], 3)
    world = make_world(
        GridSearch(), pbt(synch=True, perturbation_interval=1, hyperparam_mutations={"c": lambda: 1}),
        {"a": search_space.grid_search(values), "c": 1}, lambda config, state, at: config["a"] + at - state,
        samples=3, length=3, cpus=cpus, every=int(saves_each), order=at_random(seed),
    )  # fmt: skip
    assert world.run()
    assert [history[-1] for history in world.history.values()] == [43, 43, 43]
    assert [len(history) for history in world.history.values()] == [3, 3, 3], "no report is thrown away"


def test_a_schedule_is_replayed(tmp_path):
    path = tmp_path / "pbt_policy_1.txt"
    lines = [Exploit("1", "0", 3, 3, {"x": 0.1}, {"x": 0.2}), Exploit("2", "1", 5, 5, {"x": 0.2}, {"x": 0.4})]
    path.write_text("".join(line.line() + "\n" for line in lines))
    play = Play(PopulationBasedTrainingReplay(path), 1, samples=1, length=7).run()
    assert list(play.seen.values()) == [[0.1] * 3 + [0.2] * 2 + [0.4] * 2]


def test_the_searcher_hears_of_the_budgets():
    heard = []

    class Listening(BasicVariantGenerator):
        def on_trial_result(self, trial_id, result):
            heard.append((result["training_iteration"], result["hyperband_info"]["budget"]))

    Play(HyperBandForBOHB(max_t=9), 3, samples=9, length=20, searcher=Listening(random_state=1)).run()
    budgets = dict(heard)
    assert budgets[1] == 1 and budgets[2] is None and budgets[3] == 3


def test_soft_stopped_trials_come_last():
    rule = MedianStoppingRule("training_iteration", grace_period=2, hard_stop=False)
    play = Play(rule, 3, samples=8, length=6).run()
    assert all(trial.results == 6 for trial in play.loop.trials) and rule._out


def test_what_is_free_is_divided():
    play = Play(ResourceChangingScheduler(None, DistributeResources()), 8, samples=2, length=50).run(steps=30)
    assert [trial.resources.cpu for trial in play.loop.trials] == [4, 4]
    assert play.run().loop.is_finished


class Keeps(FIFOScheduler):
    """Keeps the controller that it is given."""

    def on_trial_add(self, runner, trial):
        self.runner = runner


def test_resources_may_be_asked_about_for_a_trial_that_is_not_there():
    scheduler = Keeps()
    Play(scheduler, 3, samples=1, length=5)
    trials = [Trial("t", resources=make_request({"cpu": cpus})) for cpus in (2, 3)]
    asked = [scheduler.runner.has_resources_for_trial(trial) for trial in trials]
    assert asked == [True, False], "one of three is in use"


def test_a_trial_that_has_not_begun_is_stopped_at_once_and_said_to_have_ended():
    """Nothing else happens afterwards that could bring the instruction with it."""
    play = Play(HoldsBack(), cpus=3, samples=2, length=4)
    first, second = play.loop.trials
    instructions = play.loop.stop_trial(second.trial_id)
    assert [(each.event, each.trial) for each in instructions] == [("trial_complete", second)]
    assert str(second.status) == "TERMINATED" and str(first.status) == "RUNNING"


class HoldsBack(FIFOScheduler):
    """Starts the first trial only."""

    def choose_trial_to_run(self, runner):
        first = runner.get_trials()[0]
        return first if first.status is Trial.PENDING else None


class Copies(FIFOScheduler):
    """The first trial is paused after its first result; the second goes on from its state after its second."""

    copies_states = True

    copied = False

    def choose_trial_to_run(self, runner):
        waiting = (Trial.PENDING, Trial.PAUSED) if self.copied else (Trial.PENDING,)
        return next((trial for trial in runner.get_live_trials() if trial.status in waiting), None)

    def on_trial_result(self, runner, trial, result):
        if trial.index == 0 and result["training_iteration"] == 1:
            return self.PAUSE
        if trial.index == 1 and result["training_iteration"] == 2 and not self.copied:
            self.copied = True
            donor = runner.get_trials()[0]
            assert donor.status is Trial.PAUSED
            runner.exploit(trial, donor, {"x": 7.0}, "copied")
            return self.NOOP
        return self.CONTINUE


@pytest.mark.parametrize("saves", [True, False], ids=["saved", "never saved"])
def test_a_trial_that_waits_goes_on_from_a_paused_donor(saves: bool) -> None:
    """NOOP: nobody but the exploit has it go on. Where the donor has saved nothing it goes on as it is."""
    play = Play(Copies(), cpus=2, samples=2, length=4)
    if not saves:
        paused = play.loop.progress_of(play.loop.trials[0])
        while play.loop.trials[0].status is not Trial.PAUSED:
            play.step()
        paused.state = None
    play.run()
    first, second = play.loop.trials
    assert [str(trial.status) for trial in (first, second)] == ["TERMINATED", "TERMINATED"]
    if saves:
        assert second.config == {"x": 7.0} and second.experiment_tag.endswith("@copied")
        assert play.seen[second.trial_id][2:] == [7.0] * 3, "iterations 2, 3 and 4, from the donor's first"
    else:
        assert second.config != {"x": 7.0} and second.results == 4


@pytest.mark.parametrize("limit", ["own", "limiter"])
def test_paused_trials_do_not_count_as_running(limit: str) -> None:
    """HyperBand pauses what it has begun until a bracket is full; if those counted, none would ever be."""
    if limit == "own":
        searcher = BOHBSearch(max_concurrent=2, seed=1)
    else:
        searcher = ConcurrencyLimiter(TPESearch(seed=1), 2)
    play = Play(HyperBandForBOHB(max_t=9), cpus=4, samples=12, length=9, searcher=searcher)
    play.run()
    assert len(play.loop.trials) == 12 and all(trial.has_ended for trial in play.loop.trials)
    results = sorted(trial.results for trial in play.loop.trials)
    assert results[:6] == [1] * 6 and results[-1] == 9, "a bracket of nine was filled and halved"


def test_a_trial_that_goes_on_with_other_resources_is_not_paused_for_the_searcher() -> None:
    heard = []

    class Hears(BasicVariantGenerator):
        def on_pause(self, trial_id):
            heard.append(trial_id)

    Play(ResourceChangingScheduler(None, DistributeResources()), 4, 2, 6, Hears(random_state=1)).run()
    assert not heard
