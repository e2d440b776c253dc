"""What an autoscaler is told: what waits, how much is behind it, what was asked for, how long nodes were idle."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.protocol import head_messages
from kernel_spec.errors import OptionError
from kernel_spec.ids import LeaseId
from kernel_spec.labels import PROVIDER_ID_LABEL
from plugins.processes.tests.head.head_bench import DRIVER, FIRST, GROUP, JOB, SECOND, WORKER, Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.nodes[1].labels = {PROVIDER_ID_LABEL: "i-1234"}
    bench.join()
    bench.said_to.clear()
    yield bench
    assert bench.ended == []


def demand(bench: Bench, needed: int | None = 0) -> dict[str, Any]:
    """Ask for the demand; nodes that are asked answer that they hold so many objects for others (None: nothing)."""
    bench.received_by(DRIVER)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.CALL, 7, "demand", ()))
    for number, node in enumerate(bench.nodes):
        for message in bench.take(node.id):
            if message[0] == packed(head_messages.AskNode(number=0, method="", arguments=()))[0]:
                assert message[2] == "needed_elsewhere"
                if needed is not None:
                    bench.tell(number, *packed(head_messages.AskAnswered(number=message[1], value=needed)))
    if needed is None:
        for _, give_up in bench.timers:
            give_up()
    found: dict[str, Any] = pickle.loads(bench.answer())
    return found


def idle(bench: Bench, needed: int | None = 0) -> list[float | None]:
    return [row["idle_seconds"] for row in demand(bench, needed)["nodes"]]


def test_waiting_requests_are_counted_by_shape_with_the_tasks_behind_them(bench: Bench) -> None:
    for id in (b"lease--1", b"lease--2"):
        bench.lease(id, granted=False, group=False)
    bench.lease(b"lease--3", group=False)
    for id in (b"lease--1", b"lease--3"):
        backlog = packed(op.Backlog(lease=LeaseId(id), tasks=70, seconds=3.5))
        bench.tell(0, head_messages.FROM_PROCESS, DRIVER, backlog)
    assert demand(bench)["shapes"] == [
        {
            "wanted": {"CPU": 1.0},
            "strategy": "DEFAULT",
            "for_actor": False,
            "requests": 2,
            "backlog": 70,
            "backlog_seconds": 3.5,
            "names": ["f"],
        }
    ], "what is granted waits no more, nor does what was behind it"


def test_a_group_that_waits_is_told_whole_and_what_waits_inside_it_is_not(bench: Bench) -> None:
    bench.call("create_placement_group", GROUP.hex(), [{"CPU": 10_000}], "SPREAD", "", "", False, pickle.dumps({}))
    bench.lease(b"lease--1", granted=False)
    found = demand(bench)
    assert found["shapes"] == []
    (group,) = found["groups"]
    assert (group["placement_group_id"], group["strategy"]) == (GROUP.hex(), "SPREAD")
    assert (list(group["bundles"]), group["bundles_to_node_id"]) == ([0], {})


def test_what_a_program_asks_for_counts_until_it_asks_anew_or_ends(bench: Bench) -> None:
    bench.call("request_resources", [{"CPU": 8}, {"GPU": 1}])
    assert demand(bench)["asked"] == [{"job_id": JOB.hex(), "bundles": [{"CPU": 8}, {"GPU": 1}]}]
    bench.call("request_resources", [{"CPU": 1}])
    assert [row["bundles"] for row in demand(bench)["asked"]] == [[{"CPU": 1}]]
    bench.head.jobs.end(DRIVER)
    assert demand(bench)["asked"] == []


@pytest.mark.parametrize("bundle", [{"CPU": -1}, {"CPU": "many"}, "CPU"])
def test_what_is_no_bundle_is_refused(bench: Bench, bundle: Any) -> None:
    with pytest.raises(OptionError, match="can't be asked for: "):
        bench.call("request_resources", [bundle])
    assert demand(bench)["asked"] == []


def test_nodes_are_told_by_the_ids_of_their_provider(bench: Bench) -> None:
    first, second = demand(bench)["nodes"]
    assert (first["node_id"], first["provider_id"]) == (FIRST.hex(), "")
    assert (second["node_id"], second["provider_id"], second["state"]) == (SECOND.hex(), "i-1234", "ALIVE")
    assert second["total"] == {"CPU": 4.0, "GPU": 4.0} and second["is_head"] is False


def test_a_program_and_leases_keep_a_node_in_use(bench: Bench) -> None:
    bench.now = 11.0
    assert idle(bench) == [None, 10.0], "the driver is on the first"
    bench.head.processes.forget(DRIVER)
    bench.process(DRIVER, "worker")  # Somebody has to ask.
    bench.now = 15.0
    assert idle(bench) == [4.0, 14.0]
    bench.lease(b"lease--1", served=WORKER, group=False)
    assert idle(bench) == [None, 14.0]
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.RETURN_LEASE, b"lease--1", False, WORKER))
    bench.now = 20.0
    assert idle(bench) == [5.0, 19.0]


@pytest.mark.parametrize("needed", [3, None])
def test_objects_that_others_need_keep_a_node_in_use_and_silence_does(bench: Bench, needed: int | None) -> None:
    bench.now = 11.0
    assert idle(bench, needed) == [None, None]
    bench.now = 13.0
    assert idle(bench)[1] == 2.0


def test_a_node_that_is_gone_has_no_row(bench: Bench) -> None:
    bench.head.remove_node(bench.nodes[1], "it died")
    assert [row["node_id"] for row in demand(bench)["nodes"]] == [FIRST.hex()]
