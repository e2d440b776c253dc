"""For how long machines have been needed by nothing, and what a kind has, as its nodes have shown."""

from __future__ import annotations

from kernel_autoscaler.core.kinds import Kind
from kernel_autoscaler.core.spare_machines import SpareMachines

from kernel_spec.resources import amounts


def test_the_latest_spare_machines_are_needed_first_and_the_others_keep_their_time() -> None:
    spare = SpareMachines()
    spare.see({"small": 2}, 0.0)
    spare.see({"small": 3, "large": 1}, 10.0)
    assert spare.for_longer_than(10.0, 10.0) == {"small": 2}
    spare.see({"small": 1}, 15.0)
    spare.see({"small": 2}, 16.0)
    assert spare.for_longer_than(10.0, 20.0) == {"small": 1}
    assert spare.for_longer_than(10.0, 26.0) == {"small": 2}


def test_a_kind_has_no_more_than_its_node_had() -> None:
    kind = Kind("six", amounts({"CPU": 6, "GPU": 1}), price=1.0)
    assert kind.at_most(amounts({"CPU": 8, "GPU": 1, "memory": 4e9})) is kind
    less = kind.at_most(amounts({"CPU": 5.5}))
    assert less.resources == {**amounts({"CPU": 5.5}), "GPU": 0} and (less.name, less.cost) == ("six", 1.0)
