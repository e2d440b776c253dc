"""The example scheduler keeps the contract, and serves the most important request first."""

from __future__ import annotations

import pluggy
from kernel_scheduler_priority import PriorityScheduler, plugin

from kernel.testing.scheduler import SchedulerConformance
from kernel.testing.scheduler_harness import SchedulerHarness
from kernel_spec import hooks


class TestPriority(SchedulerConformance):
    make_scheduler = staticmethod(PriorityScheduler)
    node_affinity = spreads = False
    reclaims = False  # only for a higher priority, see below
    most_times_slower = 10_000


def ask(world: SchedulerHarness, priority: object, **fields: object) -> bytes:
    return world.request({"CPU": 1}, hints={"priority": priority}, **fields)


def test_the_higher_priority_goes_first_and_equals_in_order() -> None:
    world = SchedulerHarness(PriorityScheduler())
    world.add_node({"CPU": 1})
    running = ask(world, 0)
    low, high, middle, high_later = ask(world, 1), ask(world, 9), ask(world, 5), ask(world, 9)
    plain = world.request({"CPU": 1})
    strange = ask(world, "very")
    while world.granted:
        world.release(*world.granted)
    assert world.order == [running, high, high_later, middle, low, plain, strange]


def test_the_least_important_holder_is_asked_back() -> None:
    world = SchedulerHarness(PriorityScheduler())
    world.add_node({"CPU": 3})
    middle, low, actor = ask(world, 5), ask(world, 1), ask(world, 0, for_actor=True)
    high = ask(world, 9)
    assert world.tick() == [low]
    assert world.tick() == [middle]
    assert world.tick() == [], "the actor is never asked"
    world.release(low)
    assert high in world.granted and actor in world.granted


def test_nobody_is_asked_back_for_an_equal_or_a_lower_one() -> None:
    world = SchedulerHarness(PriorityScheduler())
    world.add_node({"CPU": 1})
    ask(world, 5)
    ask(world, 5)
    ask(world, 1)
    assert world.tick(1.0, times=5) == []


def test_offers_itself_by_name() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_schedulers() == [{"priority": PriorityScheduler}]
