"""When a node counts as dead: to the tenth of a second, by a clock in the test's hands."""

from __future__ import annotations

import heapq
import itertools
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kernel_network_tcp.transport.tcp_connection import RESUME_SECONDS, TcpConnection
from structlog.testing import capture_logs

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import number_of, packed
from kernel_processes.head.cluster_table import ClusterTable
from kernel_processes.head.membership import ENDED_SECONDS, LOOK_SECONDS, NodeMembership
from kernel_processes.head.nodes import NodeRecord
from kernel_processes.head.tool_clients import ToolClients
from kernel_processes.protocol import head_messages
from kernel_processes.protocol.heartbeats import CLIENT_PATIENCE, HEARTBEAT_SECONDS
from kernel_processes.protocol.python_version import PYTHON
from kernel_processes.transport.reactor import Reactor as RealReactor
from kernel_processes.transport.resumption import Resumption
from kernel_spec.errors import SessionEndedError
from kernel_spec.ids import NodeId
from kernel_spec.version import __version__

DEATH_SECONDS = 5.0


class Reactor:
    """Time passes when `run` says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def clock(self) -> float:
        return self.now

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + seconds, next(self._numbers), function))

    def run(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end and not until():
            due, _, function = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            function()
        if not until():
            self.now = end

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which nothing is done."""
        self.now += seconds


class Agent(Resumption):
    """The other end of a connection, which answers heartbeats while `answers`."""

    def __init__(self, membership: NodeMembership, name: bytes) -> None:
        self.membership = membership
        self.answers = True
        self.closed, self.info, self.outbox = False, None, ()
        self.reason = ""
        self.on_close: Any = None
        self.heartbeats = 0
        membership.on_messages(
            self, [packed(head_messages.JoinCluster(node=name, python=PYTHON, version=__version__, host="host"))]
        )  # type: ignore[arg-type,list-item]

    def say(self, *message: Any) -> None:
        self.membership.on_messages(self, [message])  # type: ignore[arg-type,list-item]

    def send(self, message: Any) -> None:
        if message[0] == number_of(head_messages.Heartbeat):
            self.heartbeats += 1
            if self.answers:
                self.say(*packed(head_messages.Heartbeat()))

    def flush(self) -> None: ...

    def close(self, reason: str) -> None:
        self.closed, self.reason = True, reason


@pytest.fixture
def reactor() -> Reactor:
    return Reactor()


@pytest.fixture
def membership(reactor: Reactor) -> NodeMembership:
    return membership_of(reactor, DEATH_SECONDS)


def membership_of(reactor: Reactor, death_seconds: float) -> NodeMembership:
    session: Any = SimpleNamespace(ending=None)
    return opened_to_nodes(session, reactor, death_seconds)


def opened_to_nodes(session: Any, reactor: Any, death_seconds: float) -> NodeMembership:
    """Return the membership of a session to which no tools come."""
    cluster, nobody = ClusterTable(NodeId(b"")), cast("Any", SimpleNamespace(connections=()))
    return NodeMembership(session, lambda node, message: None, cluster, nobody, reactor, {}, death_seconds)


def test_heartbeats_go_to_and_fro(reactor: Reactor, membership: NodeMembership) -> None:
    agent = Agent(membership, b"a")
    reactor.run(60.0)
    assert not agent.closed
    assert agent.heartbeats == pytest.approx(60 / HEARTBEAT_SECONDS, rel=0.2)


@pytest.mark.parametrize("after", [0.01 * n for n in range(0, 60, 7)])
def test_who_falls_silent_is_given_up_in_time_whenever_it_does(
    reactor: Reactor, membership: NodeMembership, after: float
) -> None:
    silent, other = Agent(membership, b"a"), Agent(membership, b"b")
    reactor.run(10.0 + after)
    silent.answers, begun = False, reactor.now
    reactor.run(20.0, until=lambda: silent.closed)
    took = reactor.now - begun
    assert DEATH_SECONDS - HEARTBEAT_SECONDS - 2 * LOOK_SECONDS <= took <= DEATH_SECONDS + 1e-6
    assert silent.reason.startswith("no heartbeat from it for ")
    reactor.run(20.0)
    assert not other.closed


def test_who_talks_but_hears_nothing_is_given_up_too(reactor: Reactor, membership: NodeMembership) -> None:
    agent = Agent(membership, b"a")
    reactor.run(10.0)
    agent.answers = False
    for _ in range(60):
        reactor.run(0.1)
        if not agent.closed:
            agent.say(number_of(head_messages.LeaveCluster) + 1000)
    assert agent.closed


def test_time_in_which_the_head_stood_still_counts_against_nobody(reactor: Reactor, membership: NodeMembership) -> None:
    agent, silent = Agent(membership, b"a"), Agent(membership, b"b")
    reactor.run(10.0)
    silent.answers = False
    reactor.stand_still(600.0)
    reactor.run(3.0)
    assert not agent.closed and not silent.closed
    reactor.run(DEATH_SECONDS)
    assert silent.closed and not agent.closed


def test_where_death_comes_soon_neither_a_late_answer_nor_a_short_stand_of_the_head_is_death(reactor: Reactor) -> None:
    agent = Agent(membership := membership_of(reactor, 1.0), b"a")
    reactor.run(10.0)
    assert agent.heartbeats == pytest.approx(10 / 0.2, rel=0.2)
    agent.answers = False
    reactor.run(0.6)
    reactor.stand_still(0.45)  # the answer to the last heartbeat waits to be read meanwhile
    reactor.run(0.15)
    assert not agent.closed
    membership.on_messages(agent, [packed(head_messages.Heartbeat())])  # type: ignore[arg-type]
    reactor.run(0.6)
    assert not agent.closed
    reactor.run(1.0)
    assert agent.closed


@pytest.mark.parametrize(("client", "seconds"), [(False, 20.0), (True, 60.0)], ids=["node", "remote driver"])
def test_a_cut_link_is_mended_for_as_long_as_the_agent_may_be_silent(client: bool, seconds: float) -> None:
    reactor = RealReactor()
    nodes: list[NodeRecord] = []
    membership = opened_to_nodes(SimpleNamespace(ending=None, add_node=nodes.append), reactor, 20.0)
    link = TcpConnection(reactor, membership.on_messages, membership.on_close)
    membership.on_messages(
        link, [packed(head_messages.JoinCluster(node=b"node-one", python=PYTHON, version=__version__, host="host"))]
    )
    said = {"total": {}, "labels": {}, "devices": (), "host": "", "address": "", "directory": "", "pid": 1}
    membership.on_messages(
        link, [packed(head_messages.DescribeNode(description=pickle.dumps({**said, "client": client})))]
    )
    assert [node.client for node in nodes] == [client]
    assert link.resume_seconds == seconds
    reactor.close()


# -- who comes in ----------------------------------------------------------------------------------------------------


class Peer(Resumption):
    """The other end of a connection, which notes what it hears."""

    def __init__(self, membership: NodeMembership) -> None:
        self.membership = membership
        self.closed, self.info = False, None
        self.received: list[Any] = []
        self.outbox: list[Any] = []
        self.steps: list[Any] = []
        self.on_close: Any = membership.on_close

    def say(self, *messages: Any) -> None:
        self.membership.on_messages(self, list(messages))  # type: ignore[arg-type]

    def join(self, name: bytes = b"node", python: str = PYTHON, version: str = __version__) -> Peer:
        self.say(packed(head_messages.JoinCluster(node=name, python=python, version=version, host="far")))
        return self

    def describe(self, **more: Any) -> Peer:
        said = {
            "total": {"CPU": 3.0},
            "labels": {},
            "devices": (),
            "host": "far",
            "address": "",
            "directory": "",
            "pid": 9,
        }
        self.say(packed(head_messages.DescribeNode(description=pickle.dumps({**said, **more}))))
        return self

    def take(self) -> list[Any]:
        received, self.received = self.received, []
        return received

    def send(self, message: Any) -> None:
        self.received.append(message)
        self.outbox.append(message)

    def flush(self) -> None:
        self.outbox.clear()
        self.steps.append("flush")

    def write_out(self, seconds: float) -> None:
        self.steps.append(("write", seconds))

    def close(self, reason: str) -> None:
        self.closed = True
        self.steps.append(("close", reason))
        self.on_close(self, reason)


class SessionBehindMembership:
    """A session that keeps what its membership tells it."""

    def __init__(self, recovering: bool = False, reactor: Any = None) -> None:
        self.reactor = reactor or Reactor()
        self.nodes: dict[bytes, NodeRecord] = {}
        self.gone: list[tuple[bytes, str]] = []
        self.handled: list[Any] = []
        self.asked: list[Any] = []
        self.left: list[bytes] = []
        self.ending: str | None = None
        cluster: Any = SimpleNamespace(
            nodes=self.nodes,
            recovering=recovering,
            working_nodes=lambda: list(self.nodes.values()),
            why_fallen=lambda id: "no power" if id == b"fallen" else "",
        )
        dispatcher: Any = SimpleNamespace(
            handlers={op.CALL: lambda caller, message: self.asked.append((caller, message))}
        )
        breakpoints: Any = SimpleNamespace(process_left=lambda caller: self.left.append(caller.id))
        tools = ToolClients(dispatcher, cluster, breakpoints)
        shared = {"color": "red"}
        self.membership = NodeMembership(self, self.handle, cluster, tools, self.reactor, shared, DEATH_SECONDS)

    def handle(self, node: NodeRecord, message: Any) -> None:
        self.handled.append((node.id, message))

    def add_node(self, node: NodeRecord) -> None:
        self.nodes.setdefault(node.id, node)

    def remove_node(self, node: NodeRecord, cause: str) -> None:
        self.gone.append((node.id, cause))


@pytest.mark.parametrize("tell_all", [False, True])
def test_a_node_that_may_join_is_told_what_all_nodes_share(tell_all: bool) -> None:
    bench = SessionBehindMembership(recovering=tell_all)
    assert not bench.membership.has_links
    peer = Peer(bench.membership).join()
    ((word, shared),) = peer.take()
    told = {"color": "red", "tell_all": tell_all, "death_seconds": DEATH_SECONDS}
    assert (word, pickle.loads(shared)) == (number_of(head_messages.Welcome), told)
    assert peer.steps == ["flush"] and bench.membership.has_links and bench.nodes == {}
    peer.describe(labels={"zone": "a"})
    (node,) = bench.nodes.values()
    assert (node.id, node.total, node.labels, node.pid, node.last_heartbeat_at) == (
        b"node",
        {"CPU": 3.0},
        {"zone": "a"},
        9,
        100.0,
    )
    assert node.joined > 1e9, "seconds since the epoch"
    node.send((1, "hello"))
    assert peer.take() == [(1, "hello")]


@pytest.mark.parametrize(
    ("name", "python", "version", "ending", "reason"),
    [
        (b"node", "2.7", __version__, None, f"far runs Python 2.7, the head {PYTHON}: they must be the same"),
        (b"node", PYTHON, "0.1", None, f"far has kernel 0.1, the head {__version__}: install the same on both"),
        (b"fallen", PYTHON, __version__, None, "this node was declared dead: no power"),
        (b"known", PYTHON, __version__, None, "a node of this id is here already"),
        (b"node", PYTHON, __version__, "it was asked to stop", "the session is ending: it was asked to stop"),
    ],
)
def test_who_can_t_join_is_told_why(name: bytes, python: str, version: str, ending: str | None, reason: str) -> None:
    bench = SessionBehindMembership()
    Peer(bench.membership).join(b"known").describe()
    bench.ending = ending
    with capture_logs() as logs:
        peer = Peer(bench.membership).join(name, python, version)
    assert peer.take() == [packed(head_messages.JoinRefused(reason=reason))]
    assert peer.steps == [("write", 1.0), ("close", reason)] and peer.info is None
    ((event, host, why),) = [(line["event"], line["host"], line["reason"]) for line in logs]
    assert (event, host, why, logs[0]["node"]) == ("a node was refused", "far", reason, name.hex())
    assert bench.nodes.keys() == {b"known"} and bench.gone == []


@pytest.mark.parametrize(
    "message",
    [
        packed(head_messages.Heartbeat()),
        packed(head_messages.DescribeNode(description=b"")),
        "text",
        (),
        ("140",),
        None,
    ],
)
def test_who_does_not_introduce_itself_is_let_go(message: Any) -> None:
    bench = SessionBehindMembership()
    peer = Peer(bench.membership)
    peer.say(message, packed(head_messages.JoinCluster(node=b"node", python=PYTHON, version=__version__, host="far")))
    assert peer.steps == [("close", "the peer did not introduce itself as a node")]
    assert peer.received == [] and not bench.membership.has_links


def test_what_a_node_says_is_handled_once_it_is_described_and_counted() -> None:
    bench = SessionBehindMembership()
    peer = Peer(bench.membership).join()
    peer.say((500, "too early"))
    peer.describe()
    peer.say((501, "hello"), packed(head_messages.Heartbeat()), (502,))
    assert bench.handled == [(b"node", (501, "hello")), (b"node", (502,))]
    peer.take()
    bench.reactor.run(0.6)
    assert peer.take() == [packed(head_messages.Heartbeat(done=4))] and peer.outbox == []


def test_the_time_of_the_last_heartbeat_is_in_the_nodes_record() -> None:
    bench = SessionBehindMembership()
    peer = Peer(bench.membership).join()
    peer.describe()
    bench.reactor.run(2.0)
    peer.say((501,))
    assert bench.nodes[b"node"].last_heartbeat_at == 100.0, "it may not receive our messages"
    peer.say(packed(head_messages.Heartbeat()))
    assert bench.nodes[b"node"].last_heartbeat_at == 102.0


@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize(
    ("how", "cause"),
    [("leave", "it was stopped"), ("close", "its agent is gone: cut"), ("silence", "no heartbeat")],
)
def test_a_node_is_gone_with_its_link_once(how: str, cause: str, described: bool) -> None:
    bench = SessionBehindMembership()
    peer = Peer(bench.membership).join()
    if described:
        peer.describe()
    if how == "leave":
        peer.say(packed(head_messages.LeaveCluster(reason="it was stopped")), (501, "not received"))
    elif how == "close":
        peer.close("cut")
    else:
        bench.reactor.run(DEATH_SECONDS + 1)
    assert peer.closed and not bench.membership.has_links
    assert [(id, said[: len(cause)]) for id, said in bench.gone] == ([(b"node", cause)] if described else [])
    bench.membership.on_close(peer, "once more")  # type: ignore[arg-type]
    assert len(bench.gone) == described and bench.handled == []
    peer.received.clear()
    bench.reactor.run(3.0)
    assert peer.received == [], "nobody sends it heartbeats"


def test_a_tool_may_ask_and_no_more() -> None:
    bench = SessionBehindMembership()
    peer, other = Peer(bench.membership), Peer(bench.membership)
    hello = packed(
        op.Introduction(process=b"tool", role="tool", pid=5, address="", python=PYTHON, details={"namespace": "space"})
    )
    peer.say(hello)
    other.say(hello)
    assert not bench.membership.has_links, "it is no node"
    peer.say((op.CALL, 1, "nodes", ()), packed(head_messages.Heartbeat()))
    ((caller, message),) = bench.asked
    assert (caller.id, caller.pid, caller.details, message) == (
        b"tool",
        5,
        {"namespace": "space"},
        (op.CALL, 1, "nodes", ()),
    )
    assert peer.steps == [("close", "a tool may only ask")] and caller.closed and not other.closed
    assert bench.left == [b"tool"], "what it was attached to waits again"
    other.outbox.append("an answer")
    bench.membership.flush()
    assert other.steps == ["flush"] and peer.steps[1:] == []


def test_another_process_than_a_tool_has_to_join_a_node() -> None:
    peer = Peer(SessionBehindMembership().membership)
    peer.say(packed(op.Introduction(process=b"id", role="driver", pid=5, address="", python=PYTHON, details={})))
    why = "a process that calls itself a driver came to the head; it has to join a node"
    assert peer.received == [packed(head_messages.JoinRefused(reason=why))] and peer.steps == [
        ("write", 1.0),
        ("close", why),
    ]


def test_a_tool_counts_as_a_process_of_the_first_node_there_is() -> None:
    bench = SessionBehindMembership()
    tool = Peer(bench.membership)
    tool.say(packed(op.Introduction(process=b"tool", role="tool", pid=5, address="", python=PYTHON, details={})))
    tool.say((op.CALL, 1, "nodes", ()))
    ((caller, _),) = bench.asked
    with pytest.raises(SessionEndedError, match="no node has joined it yet"):
        _ = caller.node
    Peer(bench.membership).join().describe()
    assert caller.node is bench.nodes[b"node"]
    caller.send((2, "an answer"))
    assert tool.received == [(2, "an answer")] and (caller.role, caller.job, caller.environment) == ("tool", b"", "")


def test_a_tool_of_another_python_is_refused_and_not_kept() -> None:
    bench = SessionBehindMembership()
    peer = Peer(bench.membership)
    peer.say(packed(op.Introduction(process=b"id", role="tool", pid=5, address="", python="2.7", details={})))
    why = f"the peer runs Python 2.7, the head {PYTHON}: they must be the same"
    assert peer.received == [packed(head_messages.JoinRefused(reason=why))] and peer.steps[-1] == ("close", why)
    bench.membership.close()
    assert peer.steps[-1] == ("close", why) and len(peer.steps) == 2 and bench.left == []


def test_what_waits_is_written_where_any_does() -> None:
    bench = SessionBehindMembership()
    peers = [Peer(bench.membership).join(name) for name in (b"one", b"two")]
    peers[0].send((1,))
    bench.membership.flush()
    assert [peer.steps for peer in peers] == [["flush", "flush"], ["flush"]]


def test_at_the_end_what_waits_is_written_and_nobody_is_mourned() -> None:
    bench = SessionBehindMembership()
    peers = [Peer(bench.membership).join(name).describe() for name in (b"one", b"two")]
    tool = Peer(bench.membership)
    tool.say(packed(op.Introduction(process=b"tool", role="tool", pid=5, address="", python=PYTHON, details={})))
    bench.membership.close()
    end = [("write", 1.0), ("close", "the head has ended")]
    assert [peer.steps[-2:] for peer in (*peers, tool)] == [end, end, end]
    assert bench.gone == []


@pytest.mark.parametrize("client", [False, True])
def test_a_link_that_has_ended_is_waited_for_by_how_far_away_the_agent_is(client: bool) -> None:
    bench = SessionBehindMembership(reactor=RealReactor())
    link = TcpConnection(bench.reactor, bench.membership.on_messages, bench.membership.on_close)
    bench.membership.on_messages(
        link, [packed(head_messages.JoinCluster(node=b"node-one", python=PYTHON, version=__version__, host="host"))]
    )
    assert link.ended_seconds == ENDED_SECONDS
    said = {"total": {}, "labels": {}, "devices": (), "host": "", "address": "", "directory": "", "pid": 1}
    bench.membership.on_messages(
        link, [packed(head_messages.DescribeNode(description=pickle.dumps({**said, "client": client})))]
    )
    assert link.ended_seconds == (CLIENT_PATIENCE * DEATH_SECONDS if client else ENDED_SECONDS)
    assert link.resume_seconds == max(RESUME_SECONDS, link.ended_seconds)
    bench.reactor.close()
