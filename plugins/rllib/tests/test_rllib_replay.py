"""Replay: rings, trees of sums, and what is drawn how often."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import DataError
from kernel_rllib.nn.schedules import PiecewiseSchedule
from kernel_rllib.replay.prioritized import PrioritizedReplay
from kernel_rllib.replay.replay import UniformReplay
from kernel_rllib.replay.ring import Ring
from kernel_rllib.replay.sum_tree import MinTree, SumTree


def rows(start: int, count: int) -> Batch:
    """Return rows that are numbered from `start` on."""
    numbers = np.arange(start, start + count)
    return Batch(obs=np.stack([numbers, -numbers], 1).astype(np.float32), rewards=numbers.astype(np.float32))


@settings(deadline=None)
@given(st.integers(1, 9), st.lists(st.integers(1, 12), max_size=8))
def test_a_ring_holds_the_newest_rows(capacity: int, counts: list[int]) -> None:
    ring = Ring(capacity)
    total = 0
    for count in counts:
        places = ring.add(rows(total, count))
        total += count
        newest = np.arange(total - len(places), total)
        np.testing.assert_array_equal(ring.take(places)["rewards"], newest)
        np.testing.assert_array_equal(ring.take(places)["obs"][:, 1], -newest)
    assert len(ring) == min(total, capacity)
    if total:
        held = sorted(ring.take(np.arange(len(ring)))["rewards"].tolist())
        assert held == list(range(max(0, total - capacity), total))


def test_a_ring_refuses_other_columns_and_no_room() -> None:
    ring = Ring(4)
    ring.add(rows(0, 1))
    with pytest.raises(
        DataError, match=r"of \['rewards'\] it holds \['float32\[\]'\], and was given \['float64\[\]'\]"
    ):
        ring.add(Batch(obs=np.zeros((1, 2), np.float32), rewards=np.zeros(1)))
    with pytest.raises(DataError, match=r"of \['more'\] it holds \['none'\]"):
        ring.add(Batch(**rows(0, 1), more=[1]))
    with pytest.raises(DataError, match="its capacity must be at least 1"):
        Ring(0)


@settings(deadline=None)
@given(st.data(), st.sampled_from([1, 5, 64, 65, 5000]))
def test_trees_sum_up_what_was_set(data: st.DataObject, capacity: int) -> None:
    sums, smallest, plain = SumTree(capacity), MinTree(capacity), np.zeros(capacity)
    for _ in range(data.draw(st.integers(1, 4))):
        places = np.array(data.draw(st.lists(st.integers(0, capacity - 1), min_size=1, max_size=20)))
        values = np.array([data.draw(st.floats(0.0, 1e6)) for _ in places])
        plain[places] = sums[places] = smallest[places] = values
    assert sums.all == pytest.approx(plain.sum())
    set_ones = smallest[np.arange(capacity)]
    assert smallest.all == set_ones.min()
    np.testing.assert_array_equal(sums[np.arange(capacity)], plain)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 1e-9, 0.5, 1.0, 7.0, 1e9]), min_size=1, max_size=300), st.integers(0, 2**32))
def test_a_number_is_found_where_the_running_sum_passes_it(priorities: list[float], seed: int) -> None:
    if not any(priorities):
        priorities = [*priorities, 1.0]
    tree = SumTree(len(priorities))
    tree[np.arange(len(priorities))] = np.array(priorities)
    numbers = np.random.default_rng(seed).random(50) * tree.all
    found = tree.find(np.append(numbers, np.nextafter(tree.all, 0)))
    assert (np.array(priorities)[found] > 0).all()
    until = np.cumsum(priorities)
    expected = np.searchsorted(until, numbers, side="right").clip(max=len(priorities) - 1)
    slack = 1e-9 * tree.all
    assert (until[found[:-1]] >= numbers - slack).all()
    assert ((until - priorities)[found[:-1]] <= numbers + slack).all()
    assert (found[:-1] == expected).mean() > 0.9


def test_an_even_draw_is_even_and_repeatable() -> None:
    replay = UniformReplay(10)
    replay.add(rows(0, 25))
    batch = replay.sample(20_000, np.random.default_rng(0))
    numbers, counts = np.unique(batch["rewards"], return_counts=True)
    assert numbers.tolist() == list(range(15, 25))
    assert counts.min() > 1800 and counts.max() < 2200
    assert (batch["weights"] == 1).all()
    again = replay.sample(20_000, np.random.default_rng(0))
    np.testing.assert_array_equal(again["batch_indexes"], batch["batch_indexes"])


def test_rows_are_drawn_in_proportion_to_a_power_of_their_errors() -> None:
    replay = PrioritizedReplay(8, alpha=0.5, beta=1.0, epsilon=0.0)
    replay.add(rows(0, 4))
    errors = np.array([1.0, 4.0, 9.0, 16.0])
    replay.update_priorities(np.arange(4), -errors)
    batch = replay.sample(100_000, np.random.default_rng(0))
    shares = np.bincount(batch["batch_indexes"], minlength=4) / 100_000
    np.testing.assert_allclose(shares, np.array([1, 2, 3, 4]) / 10, atol=1e-3)
    # w = (N P)^-1, divided by that of the row with the least priority: 1 / (p_i / p_smallest).
    np.testing.assert_allclose(batch["weights"], 1 / np.sqrt(errors)[batch["batch_indexes"]], rtol=1e-6)


def test_new_rows_have_the_largest_priority_and_old_ones_lose_theirs() -> None:
    replay = PrioritizedReplay(4, alpha=1.0, epsilon=0.0)
    replay.add(rows(0, 4))
    replay.update_priorities(np.arange(4), np.array([5.0, 0.1, 0.1, 0.1]))
    replay.add(rows(4, 2))
    batch = replay.sample(10_200, np.random.default_rng(0))
    shares = np.bincount(batch["batch_indexes"] % 4, minlength=4) / 10_200
    np.testing.assert_allclose(shares, np.array([5, 5, 0.1, 0.1]) / 10.2, atol=1e-3)


def test_new_rows_may_come_with_their_errors() -> None:
    replay = PrioritizedReplay(3, alpha=1.0, epsilon=0.0)
    replay.add(rows(0, 4), np.array([9.0, 1.0, 2.0, 5.0]))
    assert replay.state()["priorities"].tolist() == [5.0, 1.0, 2.0]  # the fourth row is in the place of the first


def test_weights_make_up_for_priorities_by_a_schedule() -> None:
    replay = PrioritizedReplay(2, alpha=1.0, beta=PiecewiseSchedule([(0, 0.0), (100, 1.0)]), epsilon=0.0)
    replay.add(rows(0, 2), np.array([1.0, 4.0]))
    for timestep, weight in ((0, 1.0), (50, 0.5), (100, 0.25), (999, 0.25)):
        batch = replay.sample(20, np.random.default_rng(0), timestep)
        np.testing.assert_allclose(batch["weights"][batch["batch_indexes"] == 1], weight)


def test_a_state_of_another_capacity_is_refused_where_the_oldest_rows_would_get_lost() -> None:
    full = UniformReplay(4)
    full.add(rows(0, 6))
    with pytest.raises(DataError, match="has 4 rows of 6 that were ever added, and this one has room for 5"):
        UniformReplay(5).set_state(full.state())
    with pytest.raises(DataError, match="has 4 rows of 6 that were ever added, and this one has room for 3"):
        UniformReplay(3).set_state(full.state())
    half = UniformReplay(4)
    half.add(rows(0, 2))
    larger = UniformReplay(9)
    larger.set_state(half.state())
    assert len(larger) == 2
    empty = UniformReplay(2)
    empty.set_state(UniformReplay(2).state())
    assert len(empty) == 0


@pytest.mark.parametrize("replay", [UniformReplay(6), PrioritizedReplay(6)])
def test_a_buffer_goes_on_elsewhere(replay: UniformReplay | PrioritizedReplay) -> None:
    with pytest.raises(DataError, match="num_steps_sampled_before_learning_starts"):
        replay.sample(1, np.random.default_rng(0))
    replay.add(rows(0, 9))
    replay.update_priorities(np.arange(6), np.arange(6.0))
    other = type(replay)(6)
    other.set_state(replay.state())
    for buffer in (replay, other):
        buffer.add(rows(9, 2))
    drawn = [buffer.sample(50, np.random.default_rng(1)) for buffer in (replay, other)]
    for name, column in drawn[0].items():
        np.testing.assert_array_equal(drawn[1][name], column)


def test_errors_of_rows_that_went_meanwhile_are_not_those_of_the_rows_in_their_places() -> None:
    replay = PrioritizedReplay(4, alpha=1.0, epsilon=0.0)
    replay.add(Batch(number=np.arange(4)), np.ones(4))
    drawn = replay.sample(64, np.random.default_rng(0))
    replay.add(Batch(number=np.arange(4, 6)), np.ones(2))  # in the places of rows 0 and 1
    replay.update_priorities(drawn["batch_indexes"], 10.0 + drawn["number"])
    assert replay.state()["priorities"].tolist() == [1, 1, 12, 13]
    later = replay.sample(64, np.random.default_rng(0))
    np.testing.assert_array_equal(later["batch_indexes"], later["number"])  # a row keeps its number
    replay.update_priorities(later["batch_indexes"], 20.0 + later["number"])
    assert set(replay.state()["priorities"]) <= {24, 25, 22, 23, 1}
    assert replay.state()["priorities"][2:].tolist() == [22, 23]
