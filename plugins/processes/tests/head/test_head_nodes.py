"""The nodes of a session as its head knows them: joining, leaving, what goes with a node, and what is shown of it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.defaults.metadata import LocalMetadataStore
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.head.head import TICK_SECONDS
from kernel_processes.head.node_rows import SHOWN_DEAD, node_rows
from kernel_processes.head.nodes import NodeRecord, ProcessRecord
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.detached_jobs import DETACHED
from kernel_spec.errors import MetadataError, OptionError
from kernel_spec.ids import GroupId, JobId, LeaseId, NodeId, ProcessId
from kernel_spec.resources import Allocation, amounts
from kernel_spec.scheduling import Grant, LeaseRequested, NodeAdded, NodeRemoved, Tick
from plugins.processes.tests.head.head_bench import CPU, DRIVER, FIRST, JOB, OTHER, SECOND, WORKER, Bench

CLIENT = NodeId(b"client-1")
LEASE = LeaseId(b"lease-1-")


class LastingStore(LocalMetadataStore):
    """A store that outlives a head, as that test has it. `broken`: nothing can be written."""

    durable = True
    broken = False
    closed = discarded = False

    def put(self, table: str, key: bytes, value: bytes, *, overwrite: bool = True) -> bool:
        if self.broken:
            raise MetadataError("the disk is full")
        return super().put(table, key, value, overwrite=overwrite)

    def claim(self, owner: bytes) -> int:
        self.owner = owner
        return super().claim(owner)

    def close(self) -> None:
        self.closed = True
        if self.broken:
            raise MetadataError("the disk is full")

    def discard(self) -> None:
        self.discarded = True
        if self.broken:
            raise MetadataError("the disk is full")


def join(bench: Bench) -> Bench:
    bench.join()
    bench.said_to.clear()
    bench.scheduler.received.clear()
    return bench


@pytest.fixture
def bench() -> Bench:
    return join(Bench())


@pytest.fixture
def client(bench: Bench) -> NodeRecord:
    """The agent of a remote driver."""
    node = bench.node(CLIENT, "")
    node.client = True
    bench.head.add_node(node)
    bench.nodes.append(node)
    bench.said_to.clear()
    return node


def states(bench: Bench) -> list[tuple[str, bytes]]:
    return [(state, id) for state, id, _ in bench.happened("node")]


# -- joining ---------------------------------------------------------------------------------------------------------


def test_a_node_that_joins_is_known_to_all_parts() -> None:
    bench = Bench(LastingStore())
    node = bench.nodes[0]
    node.labels = {"zone": "a"}
    bench.head.add_node(node)
    assert bench.head.cluster.nodes == {FIRST: node}
    assert bench.scheduler.received == [NodeAdded(FIRST, {"CPU": 4.0, "GPU": 4.0}, {"zone": "a"}, ("GPU",))]
    assert bench.take(FIRST) == [packed(head_messages.Observe(wanted=True))]
    assert bench.happened("node") == [("ALIVE", FIRST, {"resources": {"CPU": 4.0, "GPU": 4.0}})]
    assert bench.head.journal.nodes() == {FIRST: ""}
    assert bench.head.journal.addresses_of({FIRST}) == {"first:1"}


def test_the_agent_of_a_remote_driver_is_no_node_to_run_anything_on() -> None:
    bench = join(Bench(LastingStore()))
    node = bench.node(CLIENT, "")
    node.client = True
    bench.head.add_node(node)
    assert bench.scheduler.received == [] and CLIENT not in bench.head.journal.nodes()
    assert (
        bench.head.cluster.living_nodes() == [*bench.nodes, node] and bench.head.cluster.working_nodes() == bench.nodes
    )
    assert bench.take(CLIENT) == [packed(head_messages.Observe(wanted=True))]
    assert (("ALIVE", CLIENT)) not in states(bench)
    bench.head.remove_node(node, "its program ended")
    assert bench.scheduler.received == [] and bench.head.journal.nodes() == {FIRST: "", SECOND: ""}
    assert ("DEAD", CLIENT) not in states(bench) and bench.head.cluster.why_fallen(CLIENT) == "its program ended"
    assert [text for _, text, _ in bench.logged] == ["a remote driver is gone"]


def test_living_nodes_are_found_by_name(bench: Bench, client: NodeRecord) -> None:
    assert bench.head.cluster.node_named(FIRST.hex()) is bench.nodes[0]
    bench.head.remove_node(bench.nodes[0], "no power")
    for id in (FIRST, CLIENT):
        with pytest.raises(OptionError) as raised:
            bench.head.cluster.node_named(id.hex())
        assert str(raised.value) == f"there is no living node {id.hex()!r}; the living nodes are {SECOND.hex()}"


# -- leaving ---------------------------------------------------------------------------------------------------------


def test_of_a_node_that_is_gone_everybody_hears_once(bench: Bench) -> None:
    node = bench.nodes[1]
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.said_to.clear()
    bench.head.remove_node(node, "no power")
    assert (node.alive, node.cause, node.state) == (False, "no power", "DEAD")
    assert (
        bench.take(FIRST) == [packed(head_messages.ProcessesGone(processes=[far], place="second:1"))]
        and bench.take(SECOND) == []
    )
    assert bench.scheduler.received == [NodeRemoved(SECOND)] and far not in bench.head.cluster.callers
    assert states(bench)[-1] == ("DEAD", SECOND)
    assert bench.happened("node")[-1][2] == {"cause": "no power"}
    detail = {"node": SECOND.hex(), "host": "host", "cause": "no power"}
    assert bench.logged == [("warning", "a node is gone", detail)]
    bench.head.remove_node(node, "once more")
    assert node.cause == "no power" and bench.scheduler.received == [NodeRemoved(SECOND)] and len(bench.logged) == 1


def test_the_next_head_knows_why_a_node_is_gone() -> None:
    bench = join(Bench(LastingStore()))
    bench.head.remove_node(bench.nodes[1], "no power")
    assert bench.head.journal.nodes() == {FIRST: "", SECOND: "no power"}
    bench.head.cluster.fallen = {NodeId(b"earlier-"): "no network"}
    bench.head.cluster.fallen_clients = {CLIENT: "its program ended"}
    causes = [
        bench.head.cluster.why_fallen(id) for id in (FIRST, SECOND, NodeId(b"earlier-"), CLIENT, NodeId(b"unknown-"))
    ]
    assert causes == ["", "no power", "no network", "its program ended", ""]


def test_with_a_node_its_workers_are_lost_for_those_elsewhere_who_hold_them(bench: Bench) -> None:
    shape = (CPU, pickle.dumps(("DEFAULT", {})), b"", True)
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.scheduler.answers[LeaseRequested] = [Grant(LEASE, SECOND, Allocation(CPU))]
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, LEASE, shape, "f", None))
    bench.tell(1, head_messages.WORKER_FOUND, LEASE, 1, far)
    bench.tell(1, *packed(head_messages.ProcessLeft(far)))  # it died, and its node before it could say so
    bench.received_by(DRIVER)
    bench.head.remove_node(bench.nodes[1], "no power")
    assert bench.received_by(DRIVER) == [packed(op.LeasedWorkerDied(worker=far, cause="no power", fault=op.LOST))]
    assert bench.head.lease_manager.leases == {}


def test_with_a_node_its_actors_die(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    died: list[Any] = []
    monkeypatch.setattr(bench.head.actors, "worker_died", lambda *said: died.append(said))
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.head.remove_node(bench.nodes[1], "no power")
    assert died == [(far, "no power", op.DIED)]


def test_what_was_asked_of_a_node_that_is_gone_is_answered_with_nothing(bench: Bench) -> None:
    answers: list[Any] = []
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.head.cluster.ask(
        bench.head.cluster.callers[far], "ping", lambda answer: answers.append(("far", answer)), 1, 2
    )
    bench.head.cluster.ask(bench.head.cluster.callers[WORKER], "ping", lambda answer: answers.append(("near", answer)))
    bench.head.cluster.ask_node(bench.nodes[1], "report", lambda answer: answers.append(("node", answer)), True)
    (number, *asked), (near, *_) = bench.told(number_of(head_messages.AskProcess))
    assert asked == [far, "ping", (1, 2)]
    ((_, method, arguments),) = bench.told(number_of(head_messages.AskNode))
    assert (method, arguments) == ("report", (True,))
    bench.head.remove_node(bench.nodes[1], "no power")
    assert answers == [("far", None), ("node", None)]
    bench.tell(0, *packed(head_messages.AskAnswered(number, "too late")))
    bench.tell(0, *packed(head_messages.AskAnswered(near, "here")))
    assert answers[2:] == [("near", "here")]


def test_who_may_run_only_on_a_node_that_is_gone_is_refused(bench: Bench) -> None:
    strategy = {"type": "node_affinity", "node": SECOND.hex(), "soft": False}
    shape = (CPU, pickle.dumps((strategy, {})), b"", True)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, LEASE, shape, "f", None))
    bench.head.remove_node(bench.nodes[1], "no power")
    assert [message[:2] for message in bench.received_by(DRIVER)] == [(number_of(op.LeaseFailed), LEASE)]


def test_groups_hear_of_a_lost_node(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(bench.head.groups, "node_lost", lambda *said: lost.append(said))
    bench.head.remove_node(bench.nodes[1], "no power")
    assert lost == [(bench.nodes[1], "no power")]


def test_a_node_leaves_one_of_three_states_behind() -> None:
    node = Bench().nodes[0]
    found = [node.state]
    node.draining = True
    found.append(node.state)
    node.drained, node.alive = True, False
    found.append(node.state)
    node.drained = False
    assert [*found, node.state] == ["ALIVE", "DRAINING", "DRAINED", "DEAD"]


def test_what_is_sent_to_a_process_goes_by_its_node(bench: Bench) -> None:
    caller = bench.head.cluster.callers[WORKER]
    assert isinstance(caller, ProcessRecord)
    caller.send((7, "hello"))
    assert bench.take(FIRST) == [(head_messages.TO_PROCESS, WORKER, (7, "hello"))]


# -- the end ---------------------------------------------------------------------------------------------------------


def test_the_end_is_told_once_to_every_node_that_is_there(bench: Bench, client: NodeRecord) -> None:
    bench.head.remove_node(bench.nodes[1], "no power")
    bench.said_to.clear()
    bench.tell(0, *packed(head_messages.EndSession("it was asked to stop")))
    bench.head.end("once more")
    assert bench.ended == ["it was asked to stop"] == [bench.head.ending]
    assert (
        bench.take(FIRST) == bench.take(CLIENT) == [packed(head_messages.EndNode(reason="it was asked to stop"))]
        and not bench.said_to
    )
    logged = len(bench.logged)
    bench.head.remove_node(bench.nodes[0], "it has left")
    assert len(bench.logged) == logged, "who leaves then is expected to"


@pytest.mark.parametrize("ending", [True, False])
def test_a_head_lets_go_of_its_metadata_and_removes_that_of_a_session_that_is_over(ending: bool) -> None:
    bench = join(Bench(store := LastingStore()))
    assert store.owner.startswith(b"the head of /nowhere, process ")
    bench.head.remove_node(bench.nodes[1], "no power")
    if ending:
        bench.head.end("it was asked to stop")
    bench.head.close()
    assert (store.discarded, store.closed) == (ending, not ending)
    dead = [(id, detail) for state, id, detail in bench.happened("node") if state == "DEAD"]
    expected = [(SECOND, {"cause": "no power"}), (FIRST, {"cause": "it was asked to stop"})]
    assert dead == expected[: 2 if ending else 1]


@pytest.mark.parametrize(("ending", "what"), [(True, "removed"), (False, "closed")])
def test_metadata_that_can_t_be_let_go_of_keeps_no_head(ending: bool, what: str) -> None:
    bench = Bench(store := LastingStore())
    if ending:
        bench.head.end("it was asked to stop")
    store.broken = True
    bench.head.close()
    text = f"the session's metadata could not be {what}"
    assert bench.logged == [("warning", text, {"reason": "the disk is full"})]


# -- time ------------------------------------------------------------------------------------------------------------


def test_time_passes_for_the_scheduler_while_anybody_waits(bench: Bench) -> None:
    started: list[Any] = []
    bench.head.services.start = started.append  # type: ignore[method-assign]
    bench.head.start()
    assert [(info.address, info.session_directory) for info in started] == [("/nowhere", "/nowhere")]
    ((seconds, tick),) = bench.timers
    assert seconds == TICK_SECONDS == 0.1
    tick()
    assert bench.scheduler.received == [] and len(bench.timers) == 2
    shape = (CPU, pickle.dumps(("DEFAULT", {})), b"", True)
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.REQUEST_LEASE, LEASE, shape, "f", None))
    tick()
    assert bench.scheduler.received[1:] == [Tick()]
    bench.tell(0, head_messages.FROM_PROCESS, DRIVER, (op.CANCEL_LEASE, LEASE))
    bench.call("create_placement_group", GroupId(b"group-01").hex(), [CPU], "PACK", "", "", False, pickle.dumps({}))
    bench.scheduler.received.clear()
    tick()
    assert bench.scheduler.received == [Tick()]


def test_what_could_not_be_written_down_is_when_time_passes() -> None:
    bench = join(Bench(store := LastingStore()))
    bench.head.journal._log = SimpleNamespace(error=lambda *a, **k: None, warning=lambda *a, **k: None)  # type: ignore[assignment]
    bench.head.services.start = lambda info: None  # type: ignore[method-assign]
    bench.head.start()
    store.broken = True
    bench.head.remove_node(bench.nodes[1], "no power")
    _, tick = bench.timers[-1]
    tick()
    assert bench.head.journal.nodes()[SECOND] == ""
    store.broken = False
    tick()
    assert bench.head.journal.nodes()[SECOND] == "no power"


# -- what is passed on -----------------------------------------------------------------------------------------------


def test_lines_are_shown_on_the_nodes_of_the_drivers_that_they_concern(bench: Bench) -> None:
    other_job = JobId(b"job-5678")
    for id, job, node, role in ((b"d2", other_job, 1, "driver"), (b"d3", JOB, 1, "driver"), (b"d4", JOB, 1, "driver")):
        bench.tell(node, *packed(head_messages.ProcessJoined(ProcessId(id), role, 1, "", job, "", {})))
    bench.said_to.clear()

    def show(node: int, job: bytes) -> tuple[list[Any], list[Any]]:
        bench.tell(node, *packed(head_messages.LinesWritten(JobId(job), 7, "f", "stdout", ["hello"])))
        return bench.take(FIRST), bench.take(SECOND)

    line = lambda job: [packed(head_messages.ShowLines(job=job, pid=7, name="f", stream="stdout", lines=["hello"]))]
    assert show(0, JOB) == ([], line(JOB))
    assert show(1, JOB) == (line(JOB), [])
    assert show(0, other_job) == ([], line(other_job))
    assert show(1, other_job) == ([], []), "its own node shows them itself"
    assert show(1, DETACHED + b"job") == (line(DETACHED + b"job"), [])
    bench.tell(0, *packed(head_messages.ProcessLeft(DRIVER)))
    bench.said_to.clear()
    assert show(1, JOB) == ([], [])
    assert bench.logged == []


def test_before_a_program_ends_its_workers_tell_their_failures_and_nodes_what_was_written(bench: Bench) -> None:
    bench.tell(1, *packed(head_messages.ProcessJoined(ProcessId(b"w3"), "worker", 1, "", JobId(b"job-5678"), "", {})))
    bench.said.clear()
    assert bench.call("show_output", 3.0) is None
    asked = bench.told(number_of(head_messages.AskProcess))
    assert [question[1:] for question in asked] == [(WORKER, "tell_failures", ()), (OTHER, "tell_failures", ())]
    assert bench.told(number_of(head_messages.AskNode)) == [], "failures come first"
    bench.tell(0, *packed(head_messages.AskAnswered(asked[0][0], None)))
    ((soon, give_up),) = bench.timers
    give_up()
    asked = bench.told(number_of(head_messages.AskNode))
    assert [question[1:] for question in asked] == [("drain_output", ())] * 2
    bench.tell(0, *packed(head_messages.AskAnswered(asked[0][0], True)))
    assert bench.answer() is None
    seconds, give_up = bench.timers[-1]
    give_up()
    assert (soon, seconds) == (0.2, 3.0) and bench.answer() == [SECOND.hex()], "this node did not do so"


def test_what_happens_on_nodes_is_observed_while_anybody_listens(bench: Bench, client: NodeRecord) -> None:
    bench.tell(1, *packed(head_messages.LifeCycleEvents([("object", "STORED", b"object", 5.0, {"size": 3})])))
    bench.tell(1, *packed(head_messages.WorkerCalls(WORKER, [("00ff", "f", 1.0, 3.0, False)])))
    assert bench.happened("object") == [("STORED", b"object", {"size": 3})]
    detail = {"name": "f", "seconds": 2.0, "worker": WORKER.hex()}
    assert bench.happened("task") == [("FINISHED", b"\x00\xff", detail)]
    bench.head.remove_node(bench.nodes[1], "no power")
    bench.said_to.clear()
    bench.head.observation.unsubscribe(bench.observer)
    assert (
        bench.take(FIRST) == bench.take(CLIENT) == [packed(head_messages.Observe(wanted=False))] and not bench.said_to
    )


def test_an_observer_that_raises_is_named_to_every_program_and_asked_no_more(bench: Bench) -> None:
    def fail(events: object) -> None:
        raise RuntimeError("a wheel came off")

    bench.observer.observe = fail
    bench.head.remove_node(bench.nodes[1], "no power")
    bench.said_to.clear()
    bench.head.observation.deliver()
    (shown,) = [message for message in bench.take(FIRST) if message[0] == number_of(head_messages.ShowLines)]
    said = "the observer of the plugin 'test' raised RuntimeError: a wheel came off; it is asked no more"
    assert shown[-1][0] == said and bench.logged[-1] == ("warning", "\n".join(shown[-1]), {})
    assert packed(head_messages.Observe(wanted=False)) in bench.said and not bench.head.observation.active


def test_pieces_of_archives_are_read_beside_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def do(work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        try:
            then(work())
        except OSError as error:
            then(error)

    def piece(digest: str, offset: int) -> tuple[int, bytes]:
        if digest != "known":
            raise OSError("no such archive")
        return 100, b"piece at %d" % offset

    monkeypatch.setattr(bench.head.packages._background, "do", do)
    monkeypatch.setattr(bench.head.packages._archives, "piece", piece)
    bench.tell(1, *packed(head_messages.WantPackage("known", 40)))
    bench.tell(1, *packed(head_messages.WantPackage("unknown", 0)))
    assert bench.take(SECOND) == [
        packed(head_messages.PackagePiece(digest="known", offset=40, total=100, piece=b"piece at 40")),
        packed(head_messages.PackagePiece(digest="unknown", offset=0, total=0, piece=b"")),
    ]


def test_one_message_that_can_t_be_handled_costs_nothing_else(bench: Bench) -> None:
    bench.tell(0, number_of(head_messages.WorkerDied), "too", "few")
    bench.tell(0, 99999)
    what = "a message of a node could not be handled"
    assert [(level, text) for level, text, _ in bench.logged] == [("exception", what)] * 2
    assert bench.logged[1][2] == {"word": 99999, "node": FIRST.hex()}
    bench.process(ProcessId(b"worker-9"), "worker")
    assert ProcessId(b"worker-9") in bench.head.cluster.callers


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_of_each_node_a_row_is_shown(bench: Bench, client: NodeRecord) -> None:
    free = {FIRST: amounts({"CPU": 0.5, "odd": 1})}
    bench.head.cluster.beside = FIRST
    bench.nodes[0].last_heartbeat_at, bench.nodes[0].labels, bench.nodes[0].version = -1.25, {"zone": "a"}, "7.1"
    bench.nodes[1].address = ""
    cluster = bench.head.cluster
    first, second = node_rows(cluster, free, 1.0)
    assert first == {
        "NodeID": FIRST.hex(), "Alive": True, "State": "ALIVE", "IsHead": True, "NodeManagerAddress": "first",
        "NodeManagerHostname": "host", "NodeManagerPort": 1, "ObjectManagerPort": 1,
        "ObjectStoreSocketName": "/nowhere/agent.sock", "RayletSocketName": "/nowhere/agent.sock",
        "Resources": {"CPU": 4.0, "GPU": 4.0}, "Available": {"CPU": 0.5, "GPU": 0.0}, "Labels": {"zone": "a"},
        "Version": "7.1",
        "HeardSecondsAgo": 2.25, "alive": True, "AgentPid": 1, "Cause": "",
    }  # fmt: skip
    found = [
        second[name] for name in ("IsHead", "NodeManagerAddress", "NodeManagerPort", "HeardSecondsAgo", "Available")
    ]
    assert found == [False, "127.0.0.1", 0, 0.0, {"CPU": 0.0, "GPU": 0.0}]
    bench.head.remove_node(bench.nodes[1], "no power")
    second = node_rows(cluster, free, 1.0)[1]
    found = [second[name] for name in ("Alive", "alive", "State", "Resources", "Available", "Cause")]
    assert found == [False, False, "DEAD", {}, {}, "no power"]


def test_of_nodes_that_are_gone_the_latest_are_shown(bench: Bench) -> None:
    ids = [NodeId(b"dead-%03d" % number) for number in range(SHOWN_DEAD + 2)]
    bench.head.cluster.fallen = {ids[0]: "no network", ids[1]: "no network", FIRST: "it is back"}
    for id in ids[2:]:
        bench.head.add_node(node := bench.node(id, "there:1"))
        bench.head.remove_node(node, "no power")
    rows = node_rows(bench.head.cluster, {}, 1.0)
    assert [row["NodeID"] for row in rows] == [FIRST.hex(), SECOND.hex(), *(id.hex() for id in ids[2:])]
    bench.head.cluster.nodes.pop(ids[-1])
    fallen = node_rows(bench.head.cluster, {}, 1.0)[0]
    names = ("NodeID", "Alive", "State", "Cause", "NodeManagerAddress", "HeardSecondsAgo", "AgentPid", "IsHead")
    assert [fallen[name] for name in names] == [ids[1].hex(), False, "DEAD", "no network", "", None, 0, False]


def test_with_the_node_of_a_driver_its_job_ends(bench: Bench) -> None:
    bench.process(far := ProcessId(b"far away"), "worker", node=1)
    bench.said_to.clear()
    bench.head.remove_node(bench.nodes[0], "no power")
    told = bench.take(SECOND)
    assert told == [
        packed(head_messages.ProcessesGone(processes=[DRIVER, WORKER, OTHER], place="first:1")),
        packed(head_messages.JobEnded(job=JOB)),
    ]
    assert bench.head.cluster.callers.keys() == {far}
