"""HyperBand: the paper's table, the order of filling, pausing and halving, the status block."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_tune.schedulers import HyperBandForBOHB, HyperBandScheduler
from kernel_tune.schedulers.hyperband_bracket import largest_bracket, plan
from kernel_tune.testing.simulation import Simulation, simulate
from kernel_tune.trial import Status


def curve(config, iteration):
    return config["x"] * (1 - 0.9**iteration)


def configs(count):
    return [{"x": (index * 7919 % count) / count} for index in range(count)]


def sizes(s, max_t=81, eta=3):
    return [(rung.size, rung.milestone) for rung in plan(s, max_t, eta)]


def test_the_papers_table():
    # R = 81, eta = 3: n = ceil(5 / (s+1) * 3**s), then floor(n / 3**i); the table of the JMLR version.
    assert sizes(4) == [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)]
    assert sizes(3) == [(34, 3), (11, 9), (3, 27), (1, 81)]
    assert sizes(2) == [(15, 9), (5, 27), (1, 81)]
    assert sizes(1) == [(8, 27), (2, 81)]
    assert sizes(0) == [(5, 81)]


def test_milestones_are_cut_to_whole_units_and_the_last_is_max_t():
    assert [sizes(s, 100)[0] for s in range(5)] == [(5, 100), (8, 33), (15, 11), (34, 3), (81, 1)]
    assert all(sizes(s, 100)[-1][1] == 100 for s in range(5))


@given(st.integers(1, 5000), st.sampled_from([1.5, 2, 3, 4, 10]))
def test_largest_bracket_is_the_floor_of_the_logarithm(max_t, eta):
    s = largest_bracket(max_t, eta)
    assert eta**s <= max_t * (1 + 1e-6) and eta ** (s + 1) > max_t * (1 - 1e-6)


def filled(scheduler, count):
    simulation = Simulation(scheduler, curve, configs(count), iterations=200, slots=1)
    simulation.make_trials()
    return [len(bracket.everyone) for each in scheduler._rounds for bracket in each]


def test_smaller_brackets_are_filled_first_and_rounds_follow_each_other():
    assert filled(HyperBandScheduler(max_t=81), 12) == [5, 7]
    assert filled(HyperBandScheduler(max_t=81), 143 + 6) == [5, 8, 15, 34, 81, 5, 1]
    assert filled(HyperBandForBOHB(max_t=81), 100) == [81, 19]


def test_status_block():
    scheduler = HyperBandScheduler(max_t=100)
    Simulation(scheduler, curve, configs(100), slots=1).make_trials()
    first, second = scheduler._rounds[0][:2]
    for trial_id in first.everyone[:4]:
        first.report(trial_id, 100, 1.0)
        scheduler._trials[trial_id].status = Status.PAUSED
    for trial_id in second.everyone[:2]:
        scheduler._trials[trial_id].status = Status.RUNNING
    assert scheduler.debug_string().splitlines() == [
        "Using HyperBand: num_stopped=0 total_brackets=5",
        "Round #0:",
        "Bracket(n=5, r=100, completed=80%): {'PAUSED': 4, 'PENDING': 1}",
        "Bracket(n=8, r=33, completed=0%): {'RUNNING': 2, 'PENDING': 6}",
        "Bracket(n=15, r=11, completed=0%): {'PENDING': 15}",
        "Bracket(n=34, r=3, completed=0%): {'PENDING': 34}",
        "Bracket(n=81, r=1, completed=0%): {'PENDING': 38}",
    ]


def test_a_full_bracket_keeps_the_best_of_each_rung():
    done = simulate(HyperBandForBOHB(max_t=9), curve, configs(9), iterations=100, slots=2)
    lengths = {round(trial.config["x"] * 9): done.iterations_of(trial) for trial in done.trials}
    assert lengths == {0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 3, 7: 3, 8: 9}
    assert done.scheduler.debug_string().endswith("Bracket(n=1, r=9, completed=100%): {'TERMINATED': 9}")


def test_the_work_is_that_of_the_plan_because_paused_trials_go_on_where_they_were():
    done = simulate(HyperBandScheduler(max_t=81), curve, configs(143), iterations=100, slots=8)
    planned = 0
    for s in range(5):
        steps = [0] + [milestone for _, milestone in sizes(s)]
        planned += sum(size * (end - start) for (size, end), start in zip(sizes(s), steps, strict=False))
    assert done.iterations == planned
    assert done.best_trial.config["x"] == 142 / 143


def test_a_bracket_that_is_not_filled_waits_for_the_searcher_and_goes_on_when_it_has_no_more():
    scheduler = HyperBandForBOHB(max_t=9)
    simulation = Simulation(scheduler, curve, configs(8), iterations=100, slots=2, concurrent=2)
    simulation.run(steps=2)
    assert [trial.status for trial in simulation.trials] == [Status.PAUSED, Status.PAUSED]
    assert simulation.may_make_trials() and scheduler._rounds[0][0].rung == 0
    simulation.run()
    assert all(trial.has_ended for trial in simulation.trials)


def test_max_t_ends_trials_unless_the_last_may_go_on():
    done = simulate(HyperBandScheduler(max_t=9), curve, configs(5), iterations=30)
    assert max(map(done.iterations_of, done.trials)) == 9
    done = simulate(HyperBandScheduler(max_t=9, stop_last_trials=False), curve, configs(5), iterations=30)
    assert max(map(done.iterations_of, done.trials)) == 30


def test_positional_arguments_of_the_older_signature():
    scheduler = HyperBandScheduler("time_total_s", "episode_reward_mean", max_t=600)
    assert (scheduler.time_attr, scheduler.metric, scheduler.mode) == ("time_total_s", "episode_reward_mean", "max")


def test_seconds_may_jump_over_milestones():
    done = simulate(
        HyperBandScheduler("time_total_s", max_t=60), curve, configs(40), iterations=300, slots=3, jitter=1,
        seconds=lambda config: 1 + 20 * config["x"],
    )  # fmt: skip
    assert all(trial.has_ended for trial in done.trials)
    assert done.best_trial.config["x"] > 0.8


def test_bohb_notes_the_budget_at_milestones_only():
    budgets = []

    class Watching(HyperBandForBOHB):
        def on_trial_result(self, runner, trial, result):
            decision = super().on_trial_result(runner, trial, result)
            budgets.append((result["training_iteration"], result["hyperband_info"]["budget"]))
            return decision

    simulate(Watching(max_t=9), curve, configs(9), iterations=20)
    assert {at: info for at, info in budgets} == {
        1: 1, 2: None, 3: 3, 4: None, 5: None, 6: None, 7: None, 8: None, 9: 9,
    }  # fmt: skip


def test_a_trial_that_fails_does_not_keep_its_bracket_waiting():
    done = simulate(
        HyperBandForBOHB(max_t=9),
        curve,
        configs(9),
        iterations=20,
        slots=3,
        fails=lambda trial, iteration: trial.index == 4,
    )
    assert done.trials[4].status is Status.ERROR
    assert done.best_trial.config["x"] == 8 / 9 and done.iterations_of(done.best_trial) == 9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 60), st.integers(1, 9), st.one_of(st.none(), st.integers(1, 20)), st.integers(0, 10**6),
    st.sampled_from([HyperBandScheduler, HyperBandForBOHB]), st.integers(1, 60), st.sampled_from([2, 2.5, 3, 4]),
)  # fmt: skip
def test_whatever_the_order_of_events_every_rung_is_as_planned(count, slots, concurrent, seed, kind, max_t, eta):
    scheduler = kind(max_t=max_t, reduction_factor=eta)
    simulation = Simulation(
        scheduler, curve, configs(count), iterations=100, slots=slots, concurrent=concurrent, seed=seed, jitter=1.0
    )
    while simulation.step():
        for bracket in (bracket for each in scheduler._rounds for bracket in each):
            assert len(bracket.members) <= bracket.rungs[bracket.rung].size
            assert all(member.time <= bracket.milestone for member in bracket.members.values())
            assert set(bracket.members) <= set(bracket.everyone) and len(bracket.everyone) <= bracket.rungs[0].size
    assert not scheduler._homes
    assert all(simulation.iterations_of(trial) <= max_t for trial in simulation.trials)
    best = max(simulation.trials, key=lambda trial: trial.config["x"])
    assert simulation.iterations_of(best) == max_t, "the best of all is best on every rung"
