"""Random histories: nodes that come, go and leave slowly, leases, groups, and a head that starts anew."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping

from kernel_conformance.scheduler_harness import SchedulerHarness
from kernel_spec.scheduling import GROUP_STRATEGIES

AFFINITY = "affinity"
LABELS = "labels"
GROUPS = "groups"

WANTED: tuple[Mapping[str, float], ...] = (
    {"CPU": 1},
    {"CPU": 1},
    {"CPU": 2},
    {"CPU": 0.5},
    {"CPU": 4},
    {},
    {"CPU": 1, "GPU": 1},
    {"GPU": 0.3},
    {"GPU": 2},
    {"CPU": 1, "memory": 3},
    {"blue": 1},
    {"CPU": 64},
)
BUNDLES: tuple[Mapping[str, float], ...] = ({"CPU": 1}, {"CPU": 2}, {"CPU": 1, "GPU": 1}, {"GPU": 0.5}, {"memory": 2})
MOST_GROUPS = 5
QUIET_TICKS = 40
"""For how many seconds nothing new happens at the end: who fits must have been served by then."""


def random_history(
    world: SchedulerHarness, dice: random.Random, features: Collection[str] = (), events: int = 300
) -> None:
    """Feed random events, then let everything end and see that nobody is left who could have been served.

    `features` says what else than leases to try: AFFINITY, LABELS, GROUPS. A world that knows how to make a scheduler
    is restarted now and then.
    """
    for total in ({"CPU": 4, "GPU": 2, "memory": 8}, {"CPU": 2}):
        world.add_node(total, labels={"zone": "a"})
    for _ in range(events):
        _random_event(world, dice, features)
    _settle(world, dice)
    groups = [id for id in world.groups if world.missing_bundles(id) and world.group_fits(id)]
    assert not groups, f"nothing runs, and {len(groups)} groups that would fit still wait, such as {groups[0].hex()}"
    inside = [request for request in world.waiting.values() if request.group is not None and world.feasible(request)]
    assert not inside, f"nothing runs, and {len(inside)} requests that fit in their groups still wait, as {inside[0]}"
    for id in list(world.groups):
        world.remove_group(id)
    _settle(world, dice)
    left = [request for request in world.waiting.values() if world.feasible(request)]
    assert not left, f"nothing runs, and {len(left)} requests that would fit still wait, such as {left[0]}"
    snapshot = world.scheduler.snapshot()
    for node, total in world.nodes.items():
        free = {name: units for name, units in snapshot.available[node].items() if units}
        assert free == total, f"nothing runs on node {node.hex()} with {total}, and {free} is free"


def _settle(world: SchedulerHarness, dice: random.Random) -> None:
    """Let time pass while every lease ends soon after it was granted."""
    for _ in range(QUIET_TICKS):
        while world.granted:
            world.tick(0.1)
            if world.granted:
                world.release(dice.choice(list(world.granted)))
        if not world.waiting and not any(map(world.missing_bundles, world.groups)):
            break
        world.tick(1.0)


def _random_event(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    kinds = [(act, weight) for act, weight, needs in _EVENTS if needs is None or needs in features]
    act = dice.choices([act for act, _ in kinds], [weight for _, weight in kinds])[0]
    act(world, dice, features)


def _request(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    fields = {"strategy": _strategy(world, dice, features), "for_actor": dice.random() < 0.1}
    if world.nodes:
        fields["origin"] = dice.choice(list(world.nodes))
        if dice.random() < 0.2:
            fields["locality"] = {dice.choice(list(world.nodes)): dice.randrange(1, 1 << 30)}
    if world.groups and dice.random() < 0.4:
        fields["group"] = dice.choice(list(world.groups))
        fields["bundle"] = dice.choice([-1, -1, 0, 1])
    world.request(dice.choice(WANTED), requester=dice.choice(["driver", "worker", "guest"]), **fields)


def _strategy(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> object:
    if AFFINITY in features and world.nodes and dice.random() < 0.2:
        node = dice.choice(list(world.nodes)).hex()
        return {"type": "node_affinity", "node": node, "soft": dice.random() < 0.5}
    if LABELS in features and dice.random() < 0.2:
        wanted = dice.choice(["a", ["a", "b"], {"not_in": ["a"]}, {"exists": True}, {"exists": False}])
        if dice.random() < 0.3:
            choices = [{"zone": wanted}, dice.choice([{}, {"zone": "b"}])]
            return {"type": "node_labels", "choices": choices, "spread": dice.random() < 0.5}
        return {"type": "node_labels", dice.choice(["hard", "soft"]): {"zone": wanted}}
    return dice.choice(["DEFAULT", "DEFAULT", "SPREAD"])


def _release(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.granted:
        world.release(dice.choice(list(world.granted)))


def _cancel(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.waiting:
        world.cancel(dice.choice(list(world.waiting)))


def _block(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.granted:
        id = dice.choice(list(world.granted))
        (world.unblock if id in world.blocked else world.block)(id)


def _set_resource(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.nodes:
        world.set_resource(dice.choice(list(world.nodes)), "blue", dice.choice([0, 1, 3]))


def _add_node(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    labels = dice.choice([{}, {"zone": "a"}, {"zone": "b"}])
    world.add_node(dice.choice([{"CPU": 1}, {"CPU": 8, "GPU": 1}, {"memory": 4}]), labels=labels)


def _change_node(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.nodes:
        node = dice.choice(list(world.nodes))
        labels = dice.choice([world.labels[node], {"zone": "b"}])
        world.add_node({"CPU": dice.choice([1, 4, 6]), "GPU": 2}, node=node, labels=labels)


def _drain_node(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if len(world.nodes) - len(world.draining) > 1:
        world.drain_node(dice.choice(list(world.nodes)))


def _cancel_drain(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.draining:
        world.cancel_drain(dice.choice(sorted(world.draining)))


def _remove_node(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if len(world.nodes) > 1:
        world.remove_node(dice.choice(sorted(world.draining) or list(world.nodes)))


def _group(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if len(world.groups) < MOST_GROUPS:
        bundles = dice.choices(BUNDLES, k=dice.choice([1, 2, 2, 3]))
        zones = [{}, {}, {"zone": "a"}, {"zone": {"not_in": ["a"]}}]
        labels = [dice.choice(zones) for _ in bundles] if LABELS in features and dice.random() < 0.3 else ()
        world.group(bundles, dice.choice(GROUP_STRATEGIES), labels=labels)


def _remove_group(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.groups:
        world.remove_group(dice.choice(list(world.groups)))


def _restart(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    if world.make is not None:
        world.restart()


def _tick(world: SchedulerHarness, dice: random.Random, features: Collection[str]) -> None:
    world.tick(dice.choice([0.1, 0.1, 1.0, 5.0]))


_Act = Callable[[SchedulerHarness, random.Random, Collection[str]], None]
_EVENTS: tuple[tuple[_Act, float, str | None], ...] = (
    (_request, 40, None),
    (_release, 22, None),
    (_cancel, 8, None),
    (_block, 10, None),
    (_set_resource, 3, None),
    (_add_node, 2, None),
    (_change_node, 2, None),
    (_drain_node, 1, None),
    (_cancel_drain, 1, None),
    (_remove_node, 3, None),
    (_restart, 1, None),
    (_group, 5, GROUPS),
    (_remove_group, 4, GROUPS),
    (_tick, 10, None),
)
