"""Collective operations between actors, tasks and the program, over real processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_parallel import collective
from kernel_parallel.collective import GroupError, RankDiedError, RankTimeoutError, rendezvous
from kernel_parallel.collective.rendezvous import Coordinator

import kernel


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


@kernel.remote
class Member:
    def join(self, size: int, rank: int, group: str, **options: Any) -> int:
        collective.init_collective_group(size, rank, "numpy", group, **options)
        return collective.get_rank(group)

    def allreduce(self, group: str, value: float, count: int = 4) -> float:
        array = np.full(count, value)
        collective.allreduce(array, group)
        return float(array[-1])

    def all(self, group: str) -> dict[str, Any]:
        rank, size = collective.get_rank(group), collective.get_collective_group_size(group)
        array, found = np.full(3, rank + 1.0), {}
        collective.allreduce(array, group, op="product")
        found["product"] = array.tolist()
        array = np.array([rank])
        collective.reduce(array, 1, group, collective.ReduceOp.MAX)
        found["reduce"] = array.tolist()
        array = np.array([rank])
        collective.broadcast(array, 2, group)
        found["broadcast"] = array.tolist()
        arrays = [np.zeros(1, int) for _ in range(size)]
        collective.allgather(arrays, np.array([rank]), group)
        found["allgather"] = np.concatenate(arrays).tolist()
        array = np.zeros(1)
        collective.reducescatter(array, [np.array([10.0 * block + rank]) for block in range(size)], group)
        found["reducescatter"] = array.tolist()
        array = np.array([rank])
        if rank == 0:
            collective.send(array + 7, 2, group)
        if rank == 2:
            collective.recv(array, 0, group)
        found["received"] = array.tolist()
        collective.barrier(group)
        return found

    def leave(self, group: str) -> bool:
        collective.destroy_collective_group(group)
        return collective.is_group_initialized(group)

    def ready(self) -> None:
        return

    def die(self) -> None:
        os._exit(3)


def joined(size: int, group: str, **options: Any) -> list[Any]:
    members = [Member.remote() for _ in range(size)]
    kernel.get([member.ready.remote() for member in members])  # how long they take to start is no part of a timeout
    ranks = [member.join.remote(size, rank, group, **options) for rank, member in enumerate(members)]
    assert kernel.get(ranks) == list(range(size))
    return members


def test_every_operation_between_actors_that_joined() -> None:
    members = joined(3, "all")
    found = kernel.get([member.all.remote("all") for member in members])
    for rank, one in enumerate(found):
        assert one == {
            "product": [6.0] * 3,
            "reduce": [2] if rank == 1 else [rank],
            "broadcast": [2],
            "allgather": [0, 1, 2],
            "reducescatter": [30.0 * rank + 3],
            "received": [7] if rank == 2 else [rank],
        }
    assert kernel.get([member.leave.remote("all") for member in members]) == [False] * 3
    again = [member.join.remote(3, 2 - rank, "all") for rank, member in enumerate(members)]
    assert kernel.get(again) == [2, 1, 0]


def test_the_driver_declares_a_group() -> None:
    members = [Member.remote() for _ in range(3)]
    collective.create_collective_group(members, 3, [2, 0, 1], group_name="declared")
    assert kernel.get([member.allreduce.remote("declared", 1.5) for member in members]) == [4.5] * 3
    found = kernel.get([member.all.remote("declared") for member in members])
    assert [one["reduce"] for one in found] == [[2], [0], [2]]
    collective.destroy_collective_group("declared")
    with pytest.raises(GroupError, match="that many actors and the ranks 0 to 1, each once"):
        collective.create_collective_group(members[:2], 2, [0, 2])


def test_tasks_and_the_program_are_members_too() -> None:
    @kernel.remote(num_cpus=0.5)
    def part(rank: int) -> float:
        collective.init_collective_group(3, rank, group_name="mixed")
        array = np.full(100_000, float(rank))
        collective.allreduce(array, "mixed")
        collective.destroy_collective_group("mixed")
        return float(array.sum())

    refs = [part.remote(rank) for rank in (1, 2)]
    collective.init_collective_group(3, 0, group_name="mixed")
    array = np.zeros(100_000)
    collective.allreduce(array, "mixed")
    assert array.sum() == 300_000 and kernel.get(refs) == [300_000.0] * 2
    assert collective.is_group_initialized("mixed") and collective.get_collective_group_size("mixed") == 3
    with pytest.raises(GroupError, match="is rank 0 of group 'mixed' already"):
        collective.init_collective_group(3, 1, group_name="mixed")
    collective.destroy_collective_group("mixed")
    assert collective.get_rank("mixed") == -1


def test_an_actor_is_in_several_groups() -> None:
    members = joined(2, "one")
    kernel.get([member.join.remote(2, 1 - rank, "two") for rank, member in enumerate(members)])
    calls = [member.allreduce.remote(group, 2.0) for group in ("one", "two") for member in members]
    assert kernel.get(calls) == [4.0] * 4


def test_a_member_that_dies_is_named_by_all_others() -> None:
    members = joined(3, "deadly", timeout=600.0)
    waiting = [member.allreduce.remote("deadly", 1.0, 500_000) for member in members[1:]]
    members[0].die.remote()
    for ref in waiting:
        with pytest.raises(RankDiedError, match="rank 0 of group 'deadly' has left or died while rank"):
            kernel.get(ref, timeout=120)
    with pytest.raises(GroupError, match="can't be used any more: rank 0 of group 'deadly' has left or died"):
        kernel.get(members[1].allreduce.remote("deadly", 1.0))
    kernel.get([member.leave.remote("deadly") for member in members[1:]])
    fresh = [Member.remote(), *members[1:]]
    kernel.get([member.join.remote(3, rank, "deadly") for rank, member in enumerate(fresh)])
    assert kernel.get([member.allreduce.remote("deadly", 1.0) for member in fresh]) == [3.0] * 3


def test_a_member_that_is_late_is_named_also_by_those_who_wait_for_somebody_else() -> None:
    members = joined(4, "late", timeout=10.0)
    waiting = [member.allreduce.remote("late", 1.0, 500_000) for member in members if member != members[3]]
    for ref in waiting:
        with pytest.raises(RankTimeoutError) as caught:
            kernel.get(ref, timeout=120)
        assert caught.value.ranks == (3,) and "did not come to allreduce within 10 s" in str(caught.value)


def test_those_who_do_not_come_to_the_beginning_are_named() -> None:
    member = Member.remote()
    with pytest.raises(RankTimeoutError, match="ranks 0 and 2 of group 'empty' did not come within 0.5 s") as caught:
        kernel.get(member.join.remote(3, 1, "empty", timeout=0.5))
    assert caught.value.ranks == (0, 2)


def test_members_must_agree_on_the_group() -> None:
    async def meet() -> Any:
        coordinator = Coordinator("torn")
        first = asyncio.ensure_future(coordinator.join(0, 2, "numpy", "here", 60.0, 60.0))
        await asyncio.sleep(0)
        with pytest.raises(GroupError, match="members of group 'torn' disagree: 2 members on 'numpy', or 3 on 'gloo'"):
            await coordinator.join(1, 3, "gloo", "there", 60.0, 60.0)
        again = asyncio.ensure_future(coordinator.join(0, 2, "numpy", "elsewhere", 60.0, 60.0))
        await asyncio.sleep(0)
        _, addresses, _ = await coordinator.join(1, 2, "numpy", "there", 60.0, 60.0)
        with pytest.raises(GroupError, match="another process came as rank 0 of group 'torn'"):
            await first
        return addresses, (await again)[1]

    assert asyncio.run(meet()) == (["elsewhere", "there"],) * 2


def test_what_can_not_be_is_refused() -> None:
    for call, words in [
        (
            lambda: collective.init_collective_group(2, 2),
            "the ranks of a group of 2 are 0 to world_size - 1",
        ),
        (lambda: collective.init_collective_group(2, 0, "mpi"), "there is no backend 'mpi'; known are 'numpy'"),
        (lambda: collective.allreduce(np.zeros(1), "none"), r"no member of group 'none'; call init_collective_group\("),
        (
            lambda: collective.allreduce(np.zeros(1), "alone", "median"),
            "there is no reduction 'median'; known",
        ),
        (lambda: collective.send(np.zeros(1), 0, "alone"), "can't send to itself"),
        (lambda: collective.broadcast(np.zeros(1), 1, "alone"), "has the ranks 0 to 0, and no rank 1"),
    ]:
        if "alone" in call.__code__.co_consts and not collective.is_group_initialized("alone"):
            collective.init_collective_group(1, 0, group_name="alone")
        with pytest.raises(GroupError, match=words):
            call()


def test_without_torch_its_backends_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # to Python, a module that can't be imported
    with pytest.raises(GroupError, match="the backend 'gloo' needs torch, which is not installed here .*pip install"):
        collective.init_collective_group(2, 0, "gloo")


def test_a_member_at_a_coordinator_that_nobody_finds_any_more_goes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when all have left, and one found the former coordinator just before it lost its name."""
    former = kernel.remote(max_concurrency=10)(Coordinator).remote("late")
    found = rendezvous.coordinator_of
    given = [former]
    monkeypatch.setattr(rendezvous, "coordinator_of", lambda group: given.pop() if given else found(group))
    member = Member.remote()
    other = member.join.remote(2, 1, "late")
    collective.init_collective_group(2, 0, "numpy", "late")
    assert kernel.get(other) == 1 and not given
    collective.destroy_collective_group("late")
