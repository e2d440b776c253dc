"""What the algorithms of collective operations compute, over real connections between the threads of this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from kernel_parallel.collective import GroupError, MismatchError, RankDiedError, RankTimeoutError, ReduceOp
from kernel_parallel.collective.mesh import Alone, Mesh, connect, listen
from kernel_parallel.collective.numpy_group import NumpyGroup
from kernel_parallel.collective.stall_diagnosis import Note, culprits

SECRET = b"known to members"
SMALL, LARGE = 7, 40_001


def groups_of(size: int, timeout: float = 600.0) -> list[NumpyGroup]:
    """Return the members of a new group, connected to each other."""
    listeners = [listen("127.0.0.1", size) for _ in range(size)]
    addresses = [("127.0.0.1", listener.getsockname()[1]) for listener in listeners]

    def join(rank: int) -> NumpyGroup:
        links = connect("test", rank, addresses, listeners[rank], SECRET, time.monotonic() + 120)
        return NumpyGroup("test", Mesh("test", rank, links, timeout, Alone()))

    try:
        return at_once([lambda rank=rank: join(rank) for rank in range(size)])
    finally:
        for listener in listeners:
            listener.close()


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return what these return, each called in a thread of its own; errors stand where results would."""
    found: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            found[index] = calls[index]()
        except Exception as error:
            found[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def everywhere(groups: Sequence[NumpyGroup], call: Callable[[NumpyGroup], Any]) -> list[Any]:
    """Return what each member returns. Raises the first error."""
    found = at_once([lambda group=group: call(group) for group in groups])
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def values(rank: int, count: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rank).integers(1, 5, count).astype(dtype)


@pytest.fixture(scope="module", params=[1, 2, 3, 4, 5, 7])
def members(request: pytest.FixtureRequest) -> Any:
    groups = groups_of(request.param)
    yield groups
    for group in groups:
        group.close()


@pytest.mark.parametrize("count", [0, 1, SMALL, LARGE])
@pytest.mark.parametrize("op", ReduceOp)
def test_allreduce(members: list[NumpyGroup], op: ReduceOp, count: int) -> None:
    def call(group: NumpyGroup) -> Any:
        array = values(group.rank, count)
        group.allreduce(array, op)
        return array

    found = everywhere(members, call)
    everything = np.array([values(rank, count) for rank in range(len(members))])
    expected = {
        ReduceOp.SUM: everything.sum(0),
        ReduceOp.PRODUCT: everything.prod(0),
        ReduceOp.MIN: everything.min(0),
        ReduceOp.MAX: everything.max(0),
        ReduceOp.AVERAGE: everything.mean(0),
    }[op]
    for array in found:
        np.testing.assert_allclose(array, expected)
        assert array.tobytes() == found[0].tobytes()  # the very same bits everywhere


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_reduce_broadcast_and_gather_from_every_root(members: list[NumpyGroup], count: int) -> None:
    size = len(members)
    expected = sum(values(rank, count, np.int64) for rank in range(size))
    for root in range(size):

        def call(group: NumpyGroup, root: int = root) -> Any:
            reduced, given = values(group.rank, count, np.int64), values(group.rank, count, np.int64)
            group.reduce(reduced, root, ReduceOp.SUM)
            group.broadcast(given, root)
            gathered = [np.empty(count, np.int64) for _ in range(size)]
            group.allgather(gathered, values(group.rank, count, np.int64))
            return reduced, given, gathered

        for rank, (reduced, given, gathered) in enumerate(everywhere(members, call)):
            assert np.array_equal(reduced, expected if rank == root else values(rank, count, np.int64))
            assert np.array_equal(given, values(root, count, np.int64))
            assert all(np.array_equal(one, values(other, count, np.int64)) for other, one in enumerate(gathered))


def test_broadcast_of_several_segments(members: list[NumpyGroup]) -> None:
    def call(group: NumpyGroup) -> bool:
        array = np.arange(700_000.0) * (group.rank == 0)
        group.broadcast(array, 0)
        return bool(np.array_equal(array, np.arange(700_000.0)))

    assert all(everywhere(members, call))


@pytest.mark.parametrize("count", [SMALL, LARGE])
def test_reducescatter(members: list[NumpyGroup], count: int) -> None:
    size = len(members)

    def call(group: NumpyGroup) -> Any:
        into = np.empty(count, np.float32)
        given = [values(group.rank * 10 + block, count, np.float32) for block in range(size)]
        group.reducescatter(into, given, ReduceOp.MAX)
        return into

    for rank, into in enumerate(everywhere(members, call)):
        assert np.array_equal(into, np.max([values(other * 10 + rank, count, np.float32) for other in range(size)], 0))


def test_send_receive_and_barrier(members: list[NumpyGroup]) -> None:
    size = len(members)
    came: list[int] = []

    def call(group: NumpyGroup) -> Any:
        found = []
        for source in range(size):
            for to in range(size):
                if source != to and group.rank == source:
                    group.send(np.full(3, 10 * source + to), to)
                if source != to and group.rank == to:
                    into = np.empty(3, np.int64)
                    group.recv(into, source)
                    found.append(int(into[2]))
        came.append(group.rank)
        group.barrier()
        return found, len(came)

    for rank, (found, seen) in enumerate(everywhere(members, call)):
        assert found == [10 * source + rank for source in range(size) if source != rank]
        assert seen == size


def test_arrays_of_any_shape_and_layout_are_changed_in_place() -> None:
    groups = groups_of(2)

    def call(group: NumpyGroup) -> Any:
        whole = np.zeros((6, 8), order="F")
        part = whole[1:5:2, ::3]
        part[...] = group.rank + 1
        group.allreduce(part, ReduceOp.SUM)
        column = np.full((300, 300), group.rank + 1, np.complex128).T[:, ::2]
        group.allreduce(column, ReduceOp.SUM)
        scalar = np.array(group.rank)
        group.allreduce(scalar, ReduceOp.MAX)
        return whole, column, scalar

    for whole, column, scalar in everywhere(groups, call):
        assert whole.sum() == 3 * 6 and whole[1, 0] == 3 and whole[0, 0] == 0
        assert (column == 3).all() and scalar == 1


def test_what_can_not_be_done_is_refused_before_anything_is_sent() -> None:
    one, other = groups_of(2)
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    for call, words in [
        (lambda: one.allreduce(frozen, ReduceOp.SUM), r"give array.copy\(\) instead"),
        (lambda: one.allreduce([1, 2], ReduceOp.SUM), "moves numpy arrays of plain values, not a list"),
        (lambda: one.allreduce(np.array([None]), ReduceOp.SUM), "not an array of object"),
        (lambda: one.allreduce(np.arange(2), ReduceOp.AVERAGE), "an average of int64 values has fractions"),
        (lambda: one.allgather([np.zeros(2)], np.zeros(2)), "a list of 2 arrays is wanted"),
        (lambda: one.allgather([np.zeros(2), np.zeros(3)], np.zeros(2)), r"array 1 of the list has the shape \(3,\)"),
    ]:
        with pytest.raises(GroupError, match=words):
            call()
    assert at_once([one.barrier, other.barrier]) == [None, None]  # the group is as good as new


def test_members_that_disagree_hear_of_it() -> None:
    one, other = groups_of(2)
    first, second = at_once(
        [lambda: one.allreduce(np.zeros(2), ReduceOp.SUM), lambda: other.allreduce(np.zeros(3), ReduceOp.SUM)]
    )
    assert isinstance(first, MismatchError) and isinstance(second, MismatchError)
    assert "rank 1 is at another operation: it sent allreduce number 1 of 24 bytes of <f8, where" in str(first)
    with pytest.raises(GroupError, match="can't be used any more: rank 1 is at another operation"):
        one.barrier()


@pytest.mark.parametrize("count", [SMALL, 2_000_000])
def test_a_member_that_is_gone_is_named_by_all(count: int) -> None:
    groups = groups_of(4)
    groups[2].close()
    calls = [lambda group=group: group.allreduce(np.zeros(count), ReduceOp.SUM) for group in groups if group.rank != 2]
    for error in at_once(calls):  # without waiting for the timeout, which is longer than a test may take
        assert isinstance(error, RankDiedError) and 2 in error.ranks and "group 'test'" in str(error)


def test_a_member_that_is_late_is_named() -> None:
    one, _other = groups_of(2, timeout=0.3)
    with pytest.raises(RankTimeoutError, match=r"rank 1 of group 'test' did not come to barrier within 0") as caught:
        one.barrier()
    assert caught.value.ranks == (1,) and isinstance(caught.value, TimeoutError)


def test_strangers_are_turned_away() -> None:
    listeners = [listen("127.0.0.1", 2) for _ in range(2)]
    addresses = [("127.0.0.1", listener.getsockname()[1]) for listener in listeners]
    stranger = socket.create_connection(addresses[0])
    stranger.sendall((1).to_bytes(4, "big") + bytes(32))
    deadline = time.monotonic() + 120
    links = at_once([lambda r=r: connect("test", r, addresses, listeners[r], SECRET, deadline) for r in range(2)])
    assert [set(one) for one in links] == [{1}, {0}]
    assert stranger.recv(1) == b""
    wrong = at_once(
        [
            lambda: connect("test", 0, addresses, listeners[0], SECRET, time.monotonic() + 0.3),
            lambda: connect("test", 1, addresses, listeners[1], b"another secret", deadline),
        ]
    )
    assert isinstance(wrong[0], RankTimeoutError) and wrong[0].ranks == (1,)
    assert isinstance(wrong[1], Exception)
    for link in (*links[0].values(), *links[1].values(), *listeners, stranger):
        link.close()


def test_blame_goes_to_those_who_do_not_wait_themselves() -> None:
    def waits(*ranks: int, age: float = 0.5) -> Note:
        return Note(frozenset(ranks), "allreduce", age)

    assert culprits([1], {1: waits(2), 2: waits(3)}, 3.0) == [3]
    assert culprits([1], {1: waits(2), 2: waits(3), 3: waits(0, age=9)}, 3.0) == [3]
    assert culprits([1, 2], {1: waits(4)}, 3.0) == [2, 4]
    assert culprits([1], {1: waits(0), 0: waits(1)}, 3.0) == [1]  # all wait for each other
