"""Groups of runners: the same samples from any number of processes, and what becomes of the lanes of one that dies."""

from __future__ import annotations

import gc
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kernel_rllib.data.fragment import Fragment, joined
from kernel_rllib.errors import RunnersLostError
from kernel_rllib.runners.env_runner import EnvRunner, Sample
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.runners.recovery import Recovery
from kernel_rllib.testing.counting import counting_blueprint
from kernel_rllib.testing.unread_failures import MARK, unread_failures

import kernel
from kernel_spec.errors import TaskError

LANES = {0: [(0, 1, 2, 3)], 1: [(0, 1, 2, 3)], 2: [(0, 1), (2, 3)], 4: [(0,), (1,), (2,), (3,)]}

pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def group() -> Iterator[Callable[..., RunnerGroup]]:
    """Make groups of a number of runners, and end them."""
    made: list[RunnerGroup] = []

    def make(runners: int, recovery: Recovery | None = "recreate", **settings: Any) -> RunnerGroup:
        options = {"num_cpus": 0}
        blueprint = counting_blueprint(lstm=5)
        made.append(
            RunnerGroup(
                blueprint, GroupSettings(LANES[runners], runners > 0, options=options, recovery=recovery, **settings)
            )
        )
        made[-1].set_weights(blueprint.module.initial(np.random.default_rng(1)), 0)
        return made[-1]

    yield make
    for each in made:
        each.close()


def whole(samples: list[Sample]) -> Fragment:
    """Return what all lanes did."""
    return joined([sample.fragments["default_policy"] for sample in samples])


def process_of(runner: EnvRunner) -> tuple[int, int]:
    """Return the number of a runner and its process."""
    return runner.index, os.getpid()


def kill_runner(group: RunnerGroup, index: int) -> None:
    """End the process of a runner at once."""
    os.kill(dict(group.foreach(process_of))[index], signal.SIGKILL)


def three_rounds(group: RunnerGroup, *, kill: int | None = None) -> list[Fragment]:
    """Sample three times with other weights each time; kill a runner while the second round runs."""
    rounds = []
    for version in range(3):
        vector = counting_blueprint(lstm=5).module.initial(np.random.default_rng(version))
        group.set_weights(vector, version + 1)
        if version == 1 and kill is not None:
            kill_runner(group, kill)
        rounds.append(whole(group.sample(lambda runner: 5)))
    return rounds


def test_of_several_runners_that_are_ready_none_starves(group: Callable[..., RunnerGroup]) -> None:
    found, brought = group(2), []
    for _ in range(6):
        found.keep_asked(lambda runner: 1, 2)
        kernel.wait([each.requests[0].sample for each in found._remote.values()], num_returns=2)
        assert found.has_sample
        brought.append(found.collect_first().runner)
    assert brought in ([1, 2] * 3, [2, 1] * 3)


def assert_same(one: Fragment, other: Fragment) -> None:
    """Fail unless two fragments are equal in every bit."""
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, other.columns[name], err_msg=name)
    np.testing.assert_array_equal(one.last_obs, other.last_obs)
    np.testing.assert_array_equal(one.final_at, other.final_at)


@pytest.mark.parametrize("runners", [1, 2, 4])
def test_any_number_of_runners_samples_the_same_bits(group: Callable[..., RunnerGroup], runners: int) -> None:
    expected = three_rounds(group(0))
    for one, other in zip(three_rounds(group(runners)), expected, strict=True):
        assert_same(one, other)


def test_each_runner_may_make_steps_of_its_own_number(group: Callable[..., RunnerGroup]) -> None:
    made = whole(group(2).sample(lambda runner: 2 * runner))
    assert made.valid is not None
    assert made.valid.sum(axis=0).tolist() == [2, 2, 4, 4]


def test_a_function_is_applied_to_each_runner_in_order(group: Callable[..., RunnerGroup]) -> None:
    indices, processes = zip(*group(2).foreach(process_of), strict=True)
    assert indices == (1, 2)
    assert len({os.getpid(), *processes}) == 3


def test_exact_recovery_makes_the_lost_sample_again_bit_for_bit(group: Callable[..., RunnerGroup]) -> None:
    expected = three_rounds(group(0))
    killed = group(2, recovery="exact")
    for one, other in zip(three_rounds(killed, kill=2), expected, strict=True):
        assert_same(one, other)
    assert killed.num_healthy_runners == 2


def test_a_recreated_runner_samples_what_is_missing_in_new_environments(group: Callable[..., RunnerGroup]) -> None:
    expected = three_rounds(group(0))
    rounds = three_rounds(group(2, recovery="recreate"), kill=2)
    assert [made.shape for made in rounds] == [(5, 4)] * 3
    for one, other in zip(rounds, expected, strict=True):
        np.testing.assert_array_equal(one.columns["obs"][:, :2], other.columns["obs"][:, :2])
    marks = [made.columns["obs"][0, 3, 1] for made in (*rounds, *expected)]
    assert marks[0] == marks[3] and marks[1] != marks[4]


def test_without_recovery_the_others_go_on(group: Callable[..., RunnerGroup]) -> None:
    ignoring = group(2, recovery="ignore")
    assert [made.shape for made in three_rounds(ignoring, kill=1)] == [(5, 4), (5, 2), (5, 2)]
    assert ignoring.num_healthy_runners == 1


def test_when_the_last_runner_dies_an_error_says_what_to_do(group: Callable[..., RunnerGroup]) -> None:
    with pytest.raises(RunnersLostError, match=r"all runners died; .*recovery='recreate'"):
        three_rounds(group(1, recovery="ignore"), kill=1)


def test_a_death_is_an_error_where_nothing_is_to_become_of_it(group: Callable[..., RunnerGroup]) -> None:
    with pytest.raises(RunnersLostError, match=r"runner 2 died: .*recovery='recreate'.* another takes its place"):
        three_rounds(group(2, recovery=None), kill=2)


def test_too_many_deaths_in_a_row_are_an_error(group: Callable[..., RunnerGroup]) -> None:
    with pytest.raises(RunnersLostError, match=r"1 runners died one after another, .*failures_tolerance"):
        three_rounds(group(2, tolerated_failures=0), kill=1)


def test_a_runner_that_died_between_samples_is_replaced_when_its_state_is_asked_for(
    group: Callable[..., RunnerGroup],
) -> None:
    expected, killed = group(0), group(2, recovery="exact")
    for made in (expected, killed):
        made.sample(lambda runner: 5)
    kill_runner(killed, 2)
    assert sorted(killed.state()["lanes"]) == ["0", "1", "2", "3"]
    assert killed.take_replaced() == [2]
    assert_same(whole(killed.sample(lambda runner: 5)), whole(expected.sample(lambda runner: 5)))


def test_without_recovery_a_runner_that_died_between_samples_is_an_error(group: Callable[..., RunnerGroup]) -> None:
    made = group(2, recovery=None)
    kill_runner(made, 1)
    with pytest.raises(RunnersLostError, match="runner 1 died"):
        made.state()


def test_exact_recovery_after_a_restore_begins_with_what_was_restored(group: Callable[..., RunnerGroup]) -> None:
    expected, killed = group(0), group(2, recovery="exact")
    for made in (expected, killed):
        saved = made.state()
        made.sample(lambda runner: 5)
        made.set_state(saved)
        made.set_weights(counting_blueprint(lstm=5).module.initial(np.random.default_rng(1)), 1)
    first = whole(expected.sample(lambda runner: 5))
    kill_runner(killed, 1)
    assert_same(whole(killed.sample(lambda runner: 5)), first)


def dies_when_asked(runner: EnvRunner, then: str = "") -> None:
    """Let the process of a runner end when it is asked for its state by itself."""
    state = runner.state

    def told() -> Any:
        if kernel.get_runtime_context().get_task_name() == "RunnerActor.state":
            os.kill(os.getpid(), signal.SIGKILL)
        return state()

    runner.state = told  # type: ignore[method-assign]


def test_exact_recovery_after_a_change_begins_with_what_was_changed(group: Callable[..., RunnerGroup]) -> None:
    expected, killed = group(0), group(2, recovery="exact")
    for made in (expected, killed):
        made.sample(lambda runner: 5)
        made.change(counting_blueprint(lstm=5), dies_when_asked)
    kill_runner(killed, 1)
    assert_same(whole(killed.sample(lambda runner: 5)), whole(expected.sample(lambda runner: 5)))


def test_a_state_that_died_with_its_runner_is_said(group: Callable[..., RunnerGroup]) -> None:
    killed = group(2, recovery="exact")
    killed.foreach(dies_when_asked)
    killed.foreach(fails_next)
    with pytest.raises(TaskError, match="a sample that fails"):
        killed.sample(lambda runner: 5)
    with pytest.raises(
        RunnersLostError, match="runner 1 died before it had told the state in which `recovery='exact'`"
    ):
        killed.sample(lambda runner: 5)


def fails_next(runner: EnvRunner) -> None:
    """Let the next sample of a runner raise."""

    def fails(*arguments: Any) -> Sample:
        raise ValueError("a sample that fails")

    runner.sample = fails  # type: ignore[assignment,method-assign]


def test_nobody_is_told_of_samples_that_are_made_again(group: Callable[..., RunnerGroup]) -> None:
    made, before = group(2), len(unread_failures())
    died = dict(made.actors())[1].apply.remote(lambda runner: os.kill(os.getpid(), signal.SIGKILL))
    for _ in range(3):
        made.request(lambda runner: 5)
    made.foreach(process_of)  # this is where it is heard of
    with pytest.raises(kernel.exceptions.ActorDiedError):
        kernel.get(died)
    assert [whole(made.collect()).shape for _ in range(3)] == [(5, 4)] * 3
    gc.collect()  # nobody can ask for what failed any more
    assert unread_failures()[before:] == [MARK]


def test_an_error_in_a_sample_leaves_no_request_behind(group: Callable[..., RunnerGroup]) -> None:
    made, before = group(2), len(unread_failures())
    made.foreach(_break_third_sample)
    assert [len(made.sample(lambda runner: 5)) for _ in range(2)] == [2, 2]
    made.request(lambda runner: 5)
    made.request(lambda runner: 5)
    with pytest.raises(ValueError, match="the third"):
        made.collect()
    assert made.rounds_asked == 0
    assert len(made.sample(lambda runner: 5)) == 2
    gc.collect()
    assert unread_failures()[before:] == [MARK]


def _break_third_sample(runner: EnvRunner) -> None:
    numbers = itertools.count(1)

    def work(runner: EnvRunner, sample: Sample) -> Sample:
        if next(numbers) == 3:
            raise ValueError("the third")
        return sample

    runner.work = work
