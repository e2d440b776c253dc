"""Population based training: exploring, quantiles, taking turns, the barrier, the logs and their replay."""

from __future__ import annotations

import json
import random
from functools import partial

import numpy as np
import pytest
from kernel_tune import search_space
from kernel_tune.arguments import ArgumentError
from kernel_tune.errors import MetricError, TuneError
from kernel_tune.schedulers import FIFOScheduler, PopulationBasedTraining, PopulationBasedTrainingReplay
from kernel_tune.schedulers.pbt_explore import explore, fill, seeded, tag_of
from kernel_tune.testing.simulation import Simulation, simulate
from kernel_tune.trial import Status, Trial


class Uniform:
    """A domain of a search space, as the schedulers see one."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def sample(self, config=None, size=1, random_state=None):
        return random_state.uniform(self.low, self.high)


class Categorical:
    """One that has categories."""

    def __init__(self, *categories):
        self.categories = list(categories)

    def sample(self, config=None, size=1, random_state=None):
        raise AssertionError("the categories are enough")


def pbt(**arguments):
    arguments = {
        "time_attr": "training_iteration", "perturbation_interval": 5, "hyperparam_mutations": {"x": Uniform(0, 1)},
        **arguments,
    }  # fmt: skip
    return PopulationBasedTraining(**arguments)


def explored(config, mutations, times=300, resample=0.0, factors=(1.2, 0.8), custom=None):
    generator = random.Random(0)
    return [explore(config, mutations, generator, resample, factors, custom) for _ in range(times)]


def test_a_number_is_multiplied_by_one_of_the_factors_and_may_leave_its_domain():
    assert {new["x"] for new in explored({"x": 1.0}, {"x": Uniform(0, 1)})} == {1.2, 0.8}
    assert {new["x"] for new in explored({"x": 1.0}, {"x": Uniform(0, 1)}, factors=(3, 2))} == {3, 2}
    assert {new["x"] for new in explored({"x": 10}, {"x": Uniform(0, 1)})} == {12, 8}
    assert all(type(new["x"]) is int for new in explored({"x": 7}, {"x": lambda: 3.7}, resample=0.5))


def test_a_list_moves_to_a_neighbour_and_stays_at_its_ends():
    values = [1, 10, 100]
    assert {new["x"] for new in explored({"x": 10}, {"x": values})} == {1, 100}
    assert {new["x"] for new in explored({"x": 1}, {"x": values})} == {1, 10}
    assert {new["x"] for new in explored({"x": 7}, {"x": values})} == {1, 10, 100}, "any, if it is not in the list"
    assert {new["x"] for new in explored({"x": "b"}, {"x": Categorical("a", "b", "c")})} == {"a", "c"}


def test_resampling_draws_anew_as_often_as_asked():
    drawn = [new["x"] for new in explored({"x": 5.0}, {"x": Uniform(0, 1)}, times=2000, resample=0.25)]
    assert 0.2 < sum(value <= 1 for value in drawn) / 2000 < 0.3
    assert {new["x"] for new in explored({"x": 1}, {"x": [1, 2, 3]}, resample=1)} == {1, 2, 3}
    assert {new["x"] for new in explored({"x": True}, {"x": lambda: False}, resample=0)} == {True}


def test_nested_mutations_change_only_what_they_name():
    config = {"a": {"b": 1.0, "c": [1]}, "d": 2}
    [new] = explored(config, {"a": {"b": Uniform(0, 1)}}, times=1)
    assert new["a"]["b"] in (1.2, 0.8) and new["a"]["c"] == [1] and new["d"] == 2
    assert config == {"a": {"b": 1.0, "c": [1]}, "d": 2}, "the donor's own is left alone"
    new["a"]["c"].append(2)
    assert config["a"]["c"] == [1]


def test_the_users_function_comes_last_and_must_return_a_configuration():
    def both(config):
        return {**config, "y": config["x"] * 2}

    assert {(new["x"], new["y"]) for new in explored({"x": 1.0}, {"x": Uniform(0, 1)}, custom=both)} == {
        (1.2, 2.4), (0.8, 1.6)
    }  # fmt: skip
    with pytest.raises(ArgumentError, match="custom_explore_fn returned None, but must return the configuration"):
        explored({"x": 1.0}, {}, custom=lambda config: None)


def test_functions_that_draw_from_global_generators_draw_the_same_again():
    def drawn():
        return (random.random(), np.random.uniform())

    generator = random.Random(4)
    with seeded(generator):
        first = drawn()
    random.seed(99)
    np.random.seed(99)
    expected = drawn()
    random.seed(99)
    np.random.seed(99)
    generator = random.Random(4)
    with seeded(generator):
        assert drawn() == first
    assert drawn() == expected, "the global generators go on as if nothing had been"


def test_missing_keys_are_filled_when_a_trial_is_made():
    config = {"x": 3}
    added = fill(config, {"x": Uniform(0, 1), "a": {"b": [5], "c": lambda: np.float64(0.5)}}, random.Random(0))
    assert config == {"x": 3, "a": {"b": 5, "c": 0.5}} and added == {"a/b": 5, "a/c": 0.5}
    scheduler = pbt()
    trial = Trial("t", trial_id="1")
    scheduler.on_trial_add(Simulation(FIFOScheduler(), lambda config, at: 0.0), trial)
    assert 0 <= trial.config["x"] <= 1 and trial.evaluated_params == trial.config


def test_tags_show_what_was_changed():
    assert tag_of({"x": 0.123456, "a": {"b": 2}, "z": 1}, {"x": [], "a": {"b": []}}) == "perturbed[x=0.1235,a/b=2]"


def population(scheduler, scores, iteration=5):
    """Let trials of these scores report, in order; return the simulation and the decisions."""
    simulation = Simulation(scheduler, lambda config, at: 0.0, [{"x": 0.5}] * len(scores), slots=len(scores))
    simulation.make_trials()
    for trial in simulation.trials:
        trial.status = Status.RUNNING
    decisions = [
        scheduler.on_trial_result(simulation, trial, {"training_iteration": iteration, "score": score})
        for trial, score in zip(simulation.trials, scores, strict=True)
    ]
    return simulation, decisions


@pytest.mark.parametrize(
    ("count", "fraction", "size"),
    [(8, 0.25, 2), (9, 0.25, 3), (4, 0.5, 2), (5, 0.5, 2), (3, 0.5, 1), (1, 0.5, 0), (8, 0, 0)],
)
def test_quantiles(count, fraction, size):
    scheduler = pbt(quantile_fraction=fraction)
    simulation, _ = population(scheduler, list(range(count)))
    lower, upper = scheduler._quantiles(simulation.trials)
    assert [trial.index for trial in lower] == list(range(size))
    assert [trial.index for trial in upper] == list(range(count - size, count))


def test_the_worst_goes_on_from_one_of_the_best_and_nobody_else_does():
    simulation, decisions = population(pbt(), [4, 3, 2, 1])
    assert decisions == ["CONTINUE", "NOOP", "NOOP", "NOOP"], "each of these was the worst so far"
    exploits = [request for request in simulation._requests if request[0] == "exploit"]
    assert [(trial.index, donor.index) for _, trial, donor, *_ in exploits] == [(1, 0), (2, 0), (3, 0)]
    _, decisions = population(pbt(), [1, 2, 3, 4])
    assert decisions == ["CONTINUE"] * 4
    _, decisions = population(pbt(mode="min", metric="score"), [1, 2])
    assert decisions == ["CONTINUE", "NOOP"]
    _, decisions = population(pbt(quantile_fraction=0), [2, 1])
    assert decisions == ["CONTINUE"] * 2


def test_nothing_happens_between_intervals_nor_in_the_burn_in():
    assert population(pbt(), [2, 1], iteration=4)[1] == ["CONTINUE"] * 2
    assert population(pbt(burn_in_period=9), [2, 1], iteration=8)[1] == ["CONTINUE"] * 2
    assert population(pbt(burn_in_period=9), [2, 1], iteration=9)[1] == ["CONTINUE", "NOOP"]


def test_who_has_nan_is_replaced_and_is_nobodys_donor():
    nan = float("nan")
    assert population(pbt(), [1, nan])[1] == ["CONTINUE", "NOOP"]
    assert population(pbt(), [nan, nan])[1] == ["CONTINUE", "CONTINUE"]


def test_results_that_lack_a_key_raise_or_pass():
    scheduler = pbt(metric="score")
    trial = Trial("t", trial_id="1")
    scheduler.on_trial_add(None, trial)
    with pytest.raises(MetricError, match="reported no 'score', and PopulationBasedTraining decides by it"):
        scheduler.on_trial_result(None, trial, {"training_iteration": 9})
    lenient = pbt(metric="score", require_attrs=False)
    lenient.on_trial_add(None, trial)
    assert lenient.on_trial_result(None, trial, {"training_iteration": 9}) == "CONTINUE"
    assert lenient.on_trial_result(None, trial, {"score": 9}) == "CONTINUE"


def test_state_and_configuration_of_the_donor_are_taken_over():
    def step(config, state):
        return [*state, config["x"]], len(set(state)) + config["x"]

    scheduler = pbt(hyperparam_mutations={"x": [1, 2, 4, 8]})
    done = simulate(scheduler, step=step, start=[], configs=[{"x": 1}, {"x": 8}], iterations=20, slots=2)
    first = next(event for event in done.history if event[1] == "exploit")
    assert first[2:5] == ("00000000", "00000001", {"x": first[4]["x"]})
    assert done._work["00000000"].state[:5] == [8] * 5, "the first five iterations are the donor's"
    assert done.trials[0].experiment_tag.startswith("0@perturbed[x=")
    assert done.trials[0].experiment_tag.count("@") == 1, "tags do not grow"


@pytest.mark.parametrize(("saved_at", "compared_at"), [(5, 10), (8, 13)])
def test_a_copy_is_compared_an_interval_after_its_donor_was_saved(saved_at, compared_at):
    scheduler = pbt()
    simulation, _ = population(scheduler, [2, 1], iteration=4)
    donor, worst = simulation.trials
    answers = []
    for trial, at in ((donor, 5), (worst, 5), *((worst, at) for at in range(saved_at + 1, 14))):
        score = 2 if trial is donor else 1
        result = {"training_iteration": at, "score": score}
        answers.append((at, scheduler.on_trial_result(simulation, trial, result)))
    assert answers[1] == (5, "NOOP")
    assert next(at for at, answer in answers[2:] if answer == "NOOP") == compared_at


def test_more_trials_than_room_take_turns_evenly():
    scheduler = pbt(quantile_fraction=0)
    done = Simulation(scheduler, lambda config, at: config["x"], [{}] * 6, slots=2, iterations=100)
    done.run(steps=30)
    assert [done.iterations_of(trial) for trial in done.trials] == [5] * 6
    done.run(steps=30)
    assert [done.iterations_of(trial) for trial in done.trials] == [10] * 6
    assert done.scheduler.debug_string() == "PopulationBasedTraining: 12 checkpoints, 0 perturbs"


def test_synchronously_all_wait_for_the_slowest():
    scheduler = pbt(synch=True)
    speed = lambda config: 1 + 9 * (config["x"] > 0.5)
    configs = [{"x": 0.1}, {"x": 0.9}, {"x": 0.2}, {"x": 0.3}]
    done = simulate(scheduler, lambda config, at: at, configs, slots=4, iterations=11, seconds=speed)
    events = [event[1] for event in done.history]
    assert events.index("exploit") > [event[:2] for event in done.history].index((50.0, "pause")), "at 5 x 10 seconds"
    for event in done.history:
        if event[1] == "exploit":
            before = [other for other in done.history if other[0] <= event[0] and other[1] == "pause"]
            assert len(before) % 4 == 0, "nobody is exploited before all have come to the barrier"


def test_a_trial_that_ends_lets_the_others_go_on_at_the_barrier():
    scheduler = pbt(synch=True)
    fails = lambda trial, iteration: trial.index == 0 and iteration == 3
    done = simulate(scheduler, lambda config, at: at, [{}] * 3, slots=3, iterations=12, fails=fails,
                    seconds=lambda config: 1.0)  # fmt: skip
    assert [done.iterations_of(trial) >= 12 for trial in done.trials] == [False, True, True]


def test_every_exploit_is_a_line_of_six_in_two_files():
    scheduler = pbt(hyperparam_mutations={"x": Uniform(0, 1)})
    done = simulate(scheduler, lambda config, at: config["x"] * at, [{}] * 4, iterations=30)
    lines = [json.loads(line) for line in done.lines["pbt_global.txt"]]
    exploits = [event for event in done.history if event[1] == "exploit"]
    assert len(lines) == len(exploits) >= 3
    for (tag, donor_tag, at, donor_at, old, new), event in zip(lines, exploits, strict=True):
        assert (int(tag), int(donor_tag)) == (int(event[2], 16), int(event[3], 16))
        assert new == event[4] and set(old) == {"x"} and at >= 5 and donor_at >= 5
    assert set(done.lines) == {"pbt_global.txt"} | {f"pbt_policy_{event[2]}.txt" for event in exploits}
    silent = simulate(pbt(log_config=False), lambda config, at: config["x"] * at, [{}] * 4, iterations=30)
    assert not silent.lines and silent.scheduler._perturbations >= 3


def theta(config, state):
    """The toy of section 4.1: climbs 1.2 - h0 t0^2 - h1 t1^2, is judged by 1.2 - t0^2 - t1^2."""
    rates = np.array([config["h0"], config["h1"]])
    state = state - 0.01 * 2 * rates * state
    return state, 1.2 - float(state @ state)


def test_the_toy_of_the_paper():
    configs = [{"h0": 1.0, "h1": 0.0}, {"h0": 0.0, "h1": 1.0}]
    run = partial(simulate, step=theta, start=np.array([0.9, 0.9]), configs=configs, slots=2, iterations=200)
    grid = run(FIFOScheduler())
    mutations = {"h0": Uniform(0, 1), "h1": Uniform(0, 1)}
    trained = run(pbt(hyperparam_mutations=mutations, perturbation_interval=4, resample_probability=0.5))
    assert grid.best_score() == pytest.approx(0.39, abs=0.01)
    assert trained.best_score() > 1.15


def drift(config, state):
    """The best value of x moves from 0.1 to 0.9; being near it is worth more."""
    at, score = state
    gain = 1 - 4 * (config["x"] - (0.1 + 0.8 * at / 60)) ** 2
    return (at + 1, score + gain), score + gain


def test_a_moving_optimum_needs_a_schedule_that_random_search_has_not():
    found, random_search = [], []
    for seed in range(5):
        configs = [{"x": value} for value in np.random.default_rng(seed).random(8)]
        run = partial(simulate, step=drift, start=(0, 0.0), configs=configs, slots=8, iterations=60)
        found.append(run(pbt(seed=seed)).best_score())
        random_search.append(run(FIFOScheduler()).best_score())
    assert sum(found) / 5 > sum(random_search) / 5 + 4


def test_a_schedule_can_be_replayed(tmp_path):
    def step(config, state):
        return [*state, config["x"]], sum([*state, config["x"]])

    done = simulate(pbt(seed=3), step=step, start=[], configs=[{}] * 6, iterations=40, slots=6)
    name, lines = max(done.lines.items(), key=lambda each: len(each[1]) if "policy" in each[0] else 0)
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    trial_id = name.removeprefix("pbt_policy_").removesuffix(".txt")
    replayed = simulate(PopulationBasedTrainingReplay(path), step=step, start=[], configs=[{"x": 9}], iterations=40)
    seen, original = replayed._work["00000000"].state, done._work[trial_id].state
    assert len(set(original)) > 2
    assert seen[: len(original)] == original, "the replay has the values of the trial's whole line of ancestors"
    changes = len(set(original)) - 1
    assert replayed.scheduler.debug_string() == f"PopulationBasedTraining replay: Step 39, perturb {changes}"


def test_a_replay_reads_only_the_last_line_of_ancestors(tmp_path):
    path = tmp_path / "pbt_policy_a.txt"
    lines = [
        ["a", "x", 4, 4, {"v": 9}, {"v": 8}],  # overwritten: a's state came later from b
        ["b", "a", 4, 4, {"v": 1}, {"v": 2}],  # b went on from a, as a was at first
        ["a", "b", 8, 8, {"v": 2}, {"v": 3}],
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = simulate(PopulationBasedTrainingReplay(str(path)), lambda config, at: config["v"], [{}], iterations=10)
    assert done.scores["00000000"] == [1] * 4 + [2] * 4 + [3] * 2


def test_a_replay_is_of_one_trial_and_of_a_file_that_is_one(tmp_path):
    with pytest.raises(ArgumentError, match="there is no policy file '.*nowhere.txt'"):
        PopulationBasedTrainingReplay(tmp_path / "nowhere.txt")
    path = tmp_path / "pbt_policy_a.txt"
    path.write_text('["a", "b", 1]\n')
    with pytest.raises(ArgumentError, match=r"pbt_policy_a.txt, line 1 is .* but must be a JSON list of six"):
        PopulationBasedTrainingReplay(path)
    path.write_text(json.dumps(["a", "b", 1, 1, {"v": 1}, {"v": 2}]))
    with pytest.raises(TuneError, match="a second trial, simulated_00000001, was added .* Use num_samples=1"):
        simulate(PopulationBasedTrainingReplay(path), lambda config, at: 1.0, [{}, {}])
    path.write_text("")
    with pytest.raises(TuneError, match="has no schedule to replay, and trial simulated_00000000 no configuration"):
        simulate(PopulationBasedTrainingReplay(path), lambda config, at: 1.0, [{}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hyperparam_mutations": {}}, "would change nothing: give hyperparam_mutations"),
        ({"hyperparam_mutations": None}, "would change nothing"),
        ({"hyperparam_mutations": 3}, "hyperparam_mutations is 3, but must be a dict"),
        ({"hyperparam_mutations": {"a": {"b": 3}}}, r"hyperparam_mutations\['a'\]\['b'\] is 3, but must be a list"),
        ({"hyperparam_mutations": {"a": []}}, r"hyperparam_mutations\['a'\] is empty"),
        ({"quantile_fraction": 0.6}, "quantile_fraction is 0.6, but must be a number at least 0 and at most 0.5"),
        ({"resample_probability": 1.5}, "resample_probability is 1.5"),
        ({"perturbation_interval": 0}, "perturbation_interval is 0, but must be a number above 0"),
        ({"perturbation_factors": ()}, "perturbation_factors is empty"),
        ({"perturbation_factors": (1.2, -1)}, "each of perturbation_factors is -1"),
        ({"custom_explore_fn": 3}, "custom_explore_fn is 3, which can't be called"),
        ({"burn_in_period": -1}, "burn_in_period is -1"),
        ({"hyperparam_mutation": {}}, "no argument 'hyperparam_mutation'. Did you mean 'hyperparam_mutations'?"),
    ],
)
def test_arguments_that_cant_be_used(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        pbt(**arguments)


def test_a_function_of_a_whole_configuration_is_refused():
    with pytest.raises(ArgumentError, match=r"is tune.sample_from, which needs a whole configuration"):
        pbt(hyperparam_mutations={"x": search_space.sample_from(lambda spec: 1)})
