"""The example scheduler keeps the contract, and serves the most important request first."""

from kernel_scheduler_priority.plugin import kernel_schedulers

from kernel.conformance.scheduler import SchedulerConformance


class TestPriority(SchedulerConformance):
    make_scheduler = staticmethod(kernel_schedulers()["priority"])
    reclaims = False  # it asks back only for the more important, see below
    most_times_slower = 10_000

    def test_the_more_important_goes_first_and_equals_in_order(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 1})
        ids = [world.request({"CPU": 1}, hints={"priority": hint}) for hint in (0, 1, 9, 5, 9, "very")]
        while world.granted:
            world.release(*world.granted)
        assert world.order == [ids[place] for place in (0, 2, 4, 3, 1, 5)]

    def test_the_least_important_holder_gives_way(self) -> None:
        world = self.harness()
        world.add_node({"CPU": 3})
        middle, low, _ = (world.request({"CPU": 1}, hints={"priority": n}, for_actor=n == 0) for n in (5, 1, 0))
        world.request({"CPU": 1}, hints={"priority": 1})
        assert world.tick() == [], "not to an equal, and an actor to nobody"
        world.request({"CPU": 1}, hints={"priority": 9})
        assert world.tick(times=5) == [low, middle]
