"""The invariants of the controller, under random events in random order."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from kernel_serve.control.instructions import DrainReplica, Instruction
from kernel_serve.control.replica_state import RUNNING, STARTING
from kernel_serve.settings import AutoscalingConfig
from kernel_serve.testing.world import Behaviour, ControlWorld, application, settings

KEY = "app#main"
BAD = "bad"


def _deploy(world: ControlWorld, version: str, replicas: int, percentage: float) -> None:
    world.deploy(
        application(version=version, main=settings(num_replicas=replicas, rolling_update_percentage=percentage))
    )


deploys = st.tuples(
    st.just("deploy"), st.sampled_from(["1", "2", "3", BAD]), st.integers(0, 8), st.sampled_from([0.1, 0.3, 1.0])
)
kills = st.tuples(st.just("kill"), st.integers(0, 20))
times = st.tuples(st.just("run"), st.sampled_from([0.05, 0.3, 2.0, 15.0]))
drains = st.tuples(st.just("drain"))
deletes = st.tuples(st.just("delete"))
events = st.lists(st.one_of(deploys, kills, times, times, drains, deletes), max_size=25)


class Watch:
    """Says when a replica that runs was stopped although one that starts could have been, to have fewer."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def __call__(self, world: ControlWorld, instruction: Instruction) -> None:
        if not isinstance(instruction, DrainReplica):
            return
        state = world.state.deployments[KEY]
        replica = state.replicas[instruction.id]
        if not state.is_of_now(replica) or replica.node in world.leaving or replica.unwell:
            return
        alive = [each for each in state.replicas.values() if each.phase in (STARTING, RUNNING)]
        if any(each.phase == STARTING and state.is_of_now(each) for each in alive):
            self.wrong.append(instruction.id)


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=events, room=st.integers(1, 30))
@example(events=[("deploy", "1", 3, 0.1), ("run", 0.3), ("deploy", BAD, 1, 0.1)], room=1)
def test_after_anything_all_is_as_it_is_to_be(events: list[tuple[object, ...]], room: int) -> None:
    world = ControlWorld({"a": room, "b": room})
    world.behaviours[BAD] = Behaviour(constructor_error="ValueError: bad")
    watch = Watch()
    world.watchers.append(watch)
    for kind, *details in events:
        if kind == "deploy":
            _deploy(world, *details)  # type: ignore[arg-type]
        elif kind == "kill" and world.placed:
            ids = sorted(world.placed)
            world.kill(ids[details[0] % len(ids)])  # type: ignore[operator]
        elif kind == "run":
            world.run(details[0])  # type: ignore[arg-type]
        elif kind == "drain":
            world.drain("b")
        elif kind == "delete" and "app" in world.state.applications:
            world.delete("app")
    world.run(300)
    assert watch.wrong == []
    application = world.state.applications.get("app")
    if application is None:
        assert not world.placed
        return
    state = world.state.deployments[KEY]
    version = state.spec.version
    if version == BAD:  # nothing was ever wholly there to go back to; what runs of an earlier version goes on
        assert world.ready(KEY, BAD) == 0 and world.ready(KEY) <= state.target
        return
    left = sum(place == "b" for place in world.placed.values()) if "b" in world.leaving else 0
    capacity = room if "b" in world.leaving else 2 * room
    if capacity >= state.target + 8:
        assert {of for of in world.alive.values()} <= {version}
        assert world.ready(KEY) == state.target
        assert left == 0
        assert state.converged
        assert sorted(world.ranks(KEY).values()) == [*range(state.target)]
    assert world.ready(KEY) <= state.target + left


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    replicas=st.integers(1, 12),
    percentage=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
    start=st.floats(0.05, 5.0),
    drain=st.floats(0.05, 20.0),
    bad=st.booleans(),
    leaving=st.booleans(),
)
def test_an_update_never_has_fewer_than_are_wanted(
    replicas: int, percentage: float, start: float, drain: float, bad: bool, leaving: bool
) -> None:
    world = ControlWorld({"a": 100, "b": 100})
    world.behaviours["1"] = Behaviour(drain_seconds=drain)
    world.behaviours["2"] = Behaviour(start, drain, constructor_error="ValueError" if bad else "")
    _deploy(world, "1", replicas, percentage)
    world.run(2)
    lowest = world.ready(KEY)

    def watch(world: ControlWorld, instruction: Instruction) -> None:
        nonlocal lowest
        lowest = min(lowest, world.ready(KEY) - isinstance(instruction, DrainReplica))

    world.watchers.append(watch)
    _deploy(world, "2", replicas, percentage)
    if leaving:
        world.run(start / 2)
        world.drain("b")
    world.run(400)
    assert lowest == replicas
    assert world.ready(KEY, "1" if bad else "2") == len(world.placed) == replicas


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    low=st.integers(0, 3),
    more=st.integers(0, 6),
    loads=st.lists(st.tuples(st.integers(0, 30), st.sampled_from([0.1, 1.0, 5.0])), max_size=15),
)
def test_autoscaling_keeps_its_bounds_and_wakes_at_once(low: int, more: int, loads: list[tuple[int, float]]) -> None:
    world = ControlWorld({"a": 100})
    high = max(1, low + more)
    config = AutoscalingConfig(min_replicas=low, max_replicas=high)
    world.deploy(application(main=settings(num_replicas=None, autoscaling=config)))
    watch = Watch()
    world.watchers.append(watch)
    state = world.state.deployments[KEY]
    for queued, seconds in loads:
        world.load(KEY, queued)
        assert state.target > 0 or not queued
        world.run(seconds)
        assert low <= state.target <= high
        assert len([each for each in state.replicas.values() if each.phase in (STARTING, RUNNING)]) <= high
    assert watch.wrong == []
    world.load(KEY, 0)
    world.run(60)
    assert world.ready(KEY) == low
