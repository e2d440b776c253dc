"""Ranks of replicas: from 0 up without a gap, one's own while it lives, and then another's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_serve.context import ReplicaRank
from kernel_serve.control import ranks
from kernel_serve.control.checkpoint import Specs, record, restore
from kernel_serve.control.instructions import Reconfigure, StartReplica
from kernel_serve.control.replica_state import STOPPING
from kernel_serve.replica.user_code import UserCode
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.testing.world import Behaviour, ControlWorld, application, settings
from kernel_serve.values import Standing

import kernel
from kernel import serve
from kernel.testing.faults import kill, wait_until

KEY = "app#main"
SECONDS = 120.0


def world_of(replicas: int, version: str = "1") -> ControlWorld:
    world = ControlWorld({"a": 40})
    deploy(world, replicas, version)
    world.run(3)
    return world


def deploy(world: ControlWorld, replicas: int, version: str = "1") -> None:
    world.deploy(application(version=version, main=settings(num_replicas=replicas)))


def told(world: ControlWorld, since: int) -> list[str]:
    return [each.id for _, each in world.done[since:] if isinstance(each, Reconfigure)]


@given(taken=st.sets(st.integers(0, 12)), wanted=st.integers(0, 8), data=st.data())
def test_who_moves_moves_into_a_gap_and_all_others_stay(taken: set[int], wanted: int, data: Any) -> None:
    assert ranks.lowest_free(taken) not in taken and set(range(ranks.lowest_free(taken))) <= taken
    running = {f"r{rank}": rank for rank in data.draw(st.sets(st.sampled_from(sorted(taken))))} if taken else {}
    moved = ranks.closed(running, taken, wanted)
    assert all(running[id] >= wanted > rank and rank not in taken for id, rank in moved.items())
    assert len({*moved.values()}) == len(moved)
    if len(taken) <= wanted and len(running) == len(taken):
        assert all(rank < wanted for rank in {**running, **moved}.values())


class TestDeciding:
    def test_a_replica_is_started_with_its_rank_and_one_in_place_of_a_dead_one_with_that(self) -> None:
        world = world_of(4)
        starts = [each for _, each in world.done if isinstance(each, StartReplica)]
        assert [each.standing for each in starts] == [Standing(rank, 4) for rank in range(4)]
        before, since = world.ranks(KEY), len(world.done)
        victim = next(id for id, rank in before.items() if rank == 1)
        world.kill(victim)
        world.run(3)
        after = world.ranks(KEY)
        assert sorted(after.values()) == [0, 1, 2, 3] and told(world, since) == []
        assert {id: rank for id, rank in after.items() if id in before} == {
            id: rank for id, rank in before.items() if id != victim
        }

    def test_while_a_rank_waits_for_its_replica_nobody_else_takes_it(self) -> None:
        world = world_of(3)
        before = world.ranks(KEY)
        world.behaviours["1"] = Behaviour(constructor_error="ValueError: not now")
        victim = next(id for id, rank in before.items() if rank == 0)
        world.kill(victim)
        world.run(60)
        assert world.ranks(KEY) == {id: rank for id, rank in before.items() if id != victim}

    def test_fewer_replicas_close_their_ranks_when_those_that_end_are_gone(self) -> None:
        world = world_of(4)
        world.behaviours["1"].drain_seconds = 5.0
        for id, rank in world.ranks(KEY).items():  # so that those that end are not the last ones
            world.state.deployments[KEY].replicas[id].number = 4 - rank
        deploy(world, 2)
        world.run(1)
        state = world.state.deployments[KEY]
        ending = [each for each in state.replicas.values() if each.phase == STOPPING]
        assert sorted(each.rank for each in ending) == [0, 1]
        assert sorted(world.ranks(KEY).values()) == [2, 3]
        world.run(10)
        assert sorted(world.ranks(KEY).values()) == [0, 1]

    def test_after_an_update_all_have_the_ranks_from_0_up(self) -> None:
        world = world_of(5)
        deploy(world, 5, "2")
        world.run(60)
        assert sorted(world.ranks(KEY).values()) == [0, 1, 2, 3, 4] and world.ready(KEY, "2") == 5

    def test_a_change_of_the_number_is_told_to_all_at_once_and_keeps_ranks(self) -> None:
        world = ControlWorld({"a": 40})
        config = AutoscalingConfig(min_replicas=3, max_replicas=8)
        world.deploy(application(main=settings(num_replicas=None, autoscaling=config)))
        world.run(3)
        before, since = world.ranks(KEY), len(world.done)
        world.load(KEY, 6)
        world.run(3)
        assert told(world, since)[:3] == [*before]
        after = world.ranks(KEY)
        assert sorted(after.values()) == [0, 1, 2, 3, 4, 5] and before.items() <= after.items()

    def test_who_is_told_its_standing_is_asked_how_it_is_all_the_same(self) -> None:
        world = world_of(2)
        state = world.state.deployments[KEY]
        for replica in state.replicas.values():
            replica.reconfiguring = Reconfigure(replica.id, replica.settings, replica.standing)  # it never answers
        world.behaviours["1"].check_error = "RuntimeError: stuck"
        world.run(60)
        assert any("failed a check" in line for line in state.history)

    def test_another_life_of_the_controller_knows_them(self) -> None:
        world = world_of(3)
        world.behaviours["1"].start_seconds = 5.0
        world.kill(next(id for id, rank in world.ranks(KEY).items() if rank == 1))
        world.run(1)
        deploy(world, 4)
        specs = Specs()
        data = record(world.state, specs, 0.0)
        after = ControlWorld({"a": 40}).state
        begun = restore(after, data, lambda digest: specs.know(digest, specs.bytes[digest]), str, world.now, 0.0)

        def known(state: Any) -> list[tuple[str, int, Standing]]:
            return [(each.id, each.rank, each.standing) for each in state.deployments[KEY].replicas.values()]

        assert known(after) == known(world.state)
        starting = [each.standing for each in begun if isinstance(each, StartReplica)]
        assert starting == [Standing(1, 3), Standing(3, 4)]

    def test_a_rank_that_changes_is_written_down_before_it_is_told(self) -> None:
        world = world_of(2)
        state = world.state.deployments[KEY]
        for replica in state.replicas.values():
            replica.rank = 1 - replica.rank
        state.touch()
        world.state.changed = False
        assert any(isinstance(each, Reconfigure) for each in world.state.step(world.now))
        assert world.state.changed


@serve.deployment(num_replicas=3)
class Sharded:
    def __init__(self) -> None:
        context = serve.get_replica_context()
        self.born = (context.rank, context.world_size)
        self.told: list[tuple[Any, int, int]] = []

    def reconfigure(self, user_config: Any, rank: ReplicaRank) -> None:
        self.told.append((user_config, rank.rank, serve.get_replica_context().world_size))

    def __call__(self) -> Any:
        context = serve.get_replica_context()
        return os.getpid(), (context.rank, context.world_size), self.born, self.told


@pytest.fixture
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=8, log_to_driver=False):
        serve.start(proxy_location="Disabled")
        yield
        serve.shutdown()


class TestReplicas:
    @staticmethod
    def replicas(handle: Any, number: int) -> dict[int, Any]:
        """Return what each of `number` replicas answers, by its process, once all know of each other."""
        found: dict[int, Any] = {}
        now: dict[int, Any] = {}

        def all_seen() -> bool:
            pid, *rest = handle.options(retry=True).remote().result(timeout_s=SECONDS)
            found[pid] = rest
            now.clear()  # one that ends may live on for a moment, and know an older number
            now.update({pid: each for pid, each in found.items() if each[0][1] == number and pid_exists(pid)})
            if any(told[-1] != (None, *standing) for standing, _, told in now.values()):
                return False  # it is just being told
            return sorted(each[0][0] for each in now.values()) == [*range(number)]

        wait_until(all_seen, SECONDS, f"{number} replicas with ranks")
        return now

    async def _heard(self, target: type, user_config: Any) -> list[Any]:
        code = UserCode(target, (), {}, 1)
        await code.construct()
        await code.reconfigure(user_config, ReplicaRank(2))
        return code.instance.heard  # type: ignore[no-any-return]

    def test_their_object_hears_of_its_rank_if_it_wants_to(self) -> None:
        class Old:
            def __init__(self) -> None:
                self.heard: list[Any] = []

            def reconfigure(self, user_config: Any) -> None:
                self.heard.append(user_config)

        class New(Old):
            async def reconfigure(self, user_config: Any, rank: Any = None) -> None:  # type: ignore[override]
                self.heard.append((user_config, rank))

        assert asyncio.run(self._heard(Old, None)) == []
        assert asyncio.run(self._heard(Old, 5)) == [5]
        assert asyncio.run(self._heard(New, None)) == [(None, 2)]
        assert asyncio.run(self._heard(New, 5)) == [(5, 2)]

    def test_they_know_their_ranks_from_their_constructor_on_and_hear_of_changes(self, session: None) -> None:
        handle = serve.run(Sharded.bind(), name="app", route_prefix=None)
        first = self.replicas(handle, 3)
        assert sorted(born for _, born, _ in first.values()) == [(0, 3), (1, 3), (2, 3)]
        assert all(said == [(None, *now)] for now, _, said in first.values())
        victim = next(pid for pid, (now, _, _) in first.items() if now[0] == 1)
        kill(victim)
        second = self.replicas(handle, 3)
        (fresh,) = second.keys() - first.keys()
        assert second[fresh][1] == (1, 3)
        serve.run(Sharded.options(num_replicas=1).bind(), name="app", route_prefix=None)
        (last,) = self.replicas(handle, 1).items()
        assert last[0] in second and last[1][0] == (0, 1) and last[1][2][-1] == (None, 0, 1)
        shown = serve.status()["applications"]["app"]["deployments"]["Sharded"]["replicas"]
        assert [each["rank"] for each in shown if each["state"] == "RUNNING"] == [0]


def pid_exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def test_a_rank_is_a_number_and_says_why_there_is_none_of_nodes() -> None:
    rank = ReplicaRank(2)
    assert rank == rank.rank == 2 and type(rank.rank) is int
    for name in ("node_rank", "local_rank"):
        with pytest.raises(AttributeError, match=f"no attribute '{name}': a replica is given its rank before its node"):
            getattr(rank, name)
    with pytest.raises(AttributeError, match="'ReplicaRank' object has no attribute 'other'$"):
        _ = rank.other
