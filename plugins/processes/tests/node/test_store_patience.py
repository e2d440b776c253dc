"""How long requests wait for room in the store before they are given up."""

from __future__ import annotations

from kernel_processes.node.store_patience import OVERFLOW_SECONDS, PATIENCE_SECONDS, StorePatience


def test_each_movement_gives_more_time() -> None:
    patience = StorePatience()
    assert patience.begin(100.0, fails=True) == PATIENCE_SECONDS
    patience.moved(102.0)
    assert patience.left(103.0, fails=True) == PATIENCE_SECONDS - 1.0
    assert patience.left(102.0 + PATIENCE_SECONDS, fails=True) == 0.0


def test_where_a_file_is_the_way_out_others_may_move_for_so_long_only() -> None:
    patience = StorePatience()
    assert patience.begin(100.0, fails=False) == OVERFLOW_SECONDS
    now = 100.0 + PATIENCE_SECONDS
    patience.moved(now)
    assert patience.left(now - 0.125, fails=False) == OVERFLOW_SECONDS + 0.125
    assert patience.left(now, fails=False) == 0.0
    assert patience.left(now, fails=True) == PATIENCE_SECONDS, "giving up would be an error"


def test_those_that_still_wait_have_the_same_time_again() -> None:
    patience = StorePatience()
    assert patience.after_giving_up(fails=False) == OVERFLOW_SECONDS
    assert patience.after_giving_up(fails=True) == PATIENCE_SECONDS
