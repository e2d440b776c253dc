"""What an engine is told: the arguments of `kernel.init`."""

from __future__ import annotations

from typing import Any

from kernel_spec.engines import SessionOptions


def options(**given: Any) -> SessionOptions:
    return SessionOptions(**{**dict.fromkeys(SessionOptions.__dataclass_fields__), **given})  # type: ignore[arg-type]


def test_named_amounts_and_others_are_the_resources_of_the_node() -> None:
    given = options(num_cpus=2, memory=100, resources={"seats": 3})
    assert given.node_resources() == {"CPU": 2, "memory": 100, "seats": 3}
    assert options().node_resources() == {}


def test_only_plugins_that_were_named_are_chosen() -> None:
    assert options(plugins={"scheduler": "fifo", "object_store": None}).chosen_plugins() == {"scheduler": "fifo"}


def test_a_process_has_the_same_id_for_the_same_seed_alone() -> None:
    assert options(object_id_seed=1).process_id() == options(object_id_seed=1).process_id()
    assert options(object_id_seed=1).process_id() != options(object_id_seed=2).process_id()
    assert options().process_id() != options().process_id()
    assert len(options().process_id()) == len(options(object_id_seed=1).process_id()) == 8
