"""The server over a UNIX socket: who may call, what becomes of errors, deadlines and slow readers."""

from __future__ import annotations

import os
import pickle
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from kernel_control_grpc import client as client_module
from kernel_control_grpc import server as server_module
from kernel_control_grpc.client import ControlPlane, error_of
from kernel_control_grpc.errors import NotAllowedError, NotKnownError, NotServedError
from kernel_control_grpc.protocol import METHODS, messages

from kernel.testing.faults import wait_until
from kernel_processes.cli import certificates
from kernel_processes.head.control_plane import control_plane_of
from kernel_processes.head.deferred import Deferred
from kernel_processes.head.observation import Observation
from kernel_processes.head.socket_activation import SocketActivation
from kernel_processes.protocol.head_sockets import control_plane_socket
from kernel_processes.transport.reactor import Reactor
from kernel_spec.errors import (
    GetTimeoutError,
    InternalError,
    OptionError,
    ProtocolError,
    SessionEndedError,
)
from kernel_spec.observers import ACTOR, ALIVE
from kernel_spec.tls_files import TlsFiles

TOKEN = bytes(range(32))
SECONDS = 120.0
"""How long anything may take: the machine may be busy."""


class FakeHead:
    """What the control plane needs of a head, in a thread of its own."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        self.observation = Observation([], self.reactor.clock, lambda active: None, self._observer_failed)
        self.logged: list[str] = []
        say = lambda text, **fields: self.logged.append(f"{text}: {fields.get('reason')}")
        self.log = SimpleNamespace(warning=say, error=say)
        self.ending = None
        job = {"namespace": "", "script": "", "started": 1.0, "ended": 0}
        self.rows = [{"job_id": f"{number:04x}", "pid": number, **job} for number in range(2500)]
        self.later = Deferred()
        self.barrier = Deferred()
        self.barrier.set(None)
        methods: dict[str, Any] = {
            "jobs": lambda caller: pickle.dumps(self.rows),
            "kv_get": lambda caller, namespace, key: {b"there": b"\x80pickled?"}.get(key),
            "kv_keys": lambda caller, namespace, prefix: [b"", b"\x00", b"a", b"\xff"],
            "kv_delete": self._fail,
            "show_output": lambda caller: self.barrier,
            "explain_any": lambda caller, prefix: self.later,
        }
        self.dispatcher = SimpleNamespace(methods=methods)
        self.cluster = SimpleNamespace(working_nodes=lambda: [SimpleNamespace(id=b"node")])
        self._running = True
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _observer_failed(self, observer: Any, error: Exception) -> None:
        raise AssertionError(f"{observer!r} raised {error!r}")

    def _fail(self, caller: Any, namespace: str, key: bytes) -> None:
        raise ZeroDivisionError("of the head's own")

    def _run(self) -> None:
        while self._running:
            self.reactor.poll(60.0)
            self.observation.deliver()

    @contextmanager
    def stuck(self) -> Iterator[None]:
        """Let the loop do nothing, from the beginning of the block to its end."""
        begun, ended = threading.Event(), threading.Event()

        def hang() -> None:
            begun.set()
            ended.wait()

        self.reactor.call_later(0.0, hang)
        self.reactor.wake()
        assert begun.wait(SECONDS)
        try:
            yield
        finally:
            ended.set()

    def do(self, function: Any) -> Any:
        """Run something in the loop and return what it returns."""
        done: list[Any] = []
        self.reactor.call_later(0.0, lambda: done.append(function()))
        self.reactor.wake()
        wait_until(lambda: done, SECONDS, "the head's loop")
        return done[0]

    def close(self) -> None:
        self._running = False
        self.reactor.wake()
        self._thread.join()


class Place:
    """A head with a control plane, and ways to it."""

    def __init__(self, directory: Path, tls: TlsFiles | None = None) -> None:
        (directory / "sockets").mkdir(exist_ok=True)
        self.head = FakeHead()
        self.address = f"unix:{control_plane_socket(str(directory))}"
        self.path = control_plane_socket(str(directory))
        self.tls = tls
        head: Any = self.head
        serve = control_plane_of(head, TOKEN, tls)
        self.control_plane: Any = head.do(lambda: SocketActivation(serve, str(directory), head.reactor, head.log))

    def client(self, token: bytes = TOKEN, tls: TlsFiles | None = None, **options: Any) -> ControlPlane:
        return ControlPlane(self.address, token, tls or self.tls, **{"seconds": SECONDS, **options})

    def close(self) -> None:
        self.head.close()
        self.control_plane.close(self.head.reactor.poll)
        self.head.reactor.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("place"))
    yield place
    place.close()


@pytest.fixture
def cluster(place: Place) -> Iterator[ControlPlane]:
    with place.client() as client:
        yield client


def test_the_first_who_comes_starts_the_server_and_is_served(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        assert place.control_plane._server is None
        assert stat.S_IMODE(os.stat(place.path).st_mode) == 0o600
        with place.client() as first, place.client() as second:
            assert first.session.versions().protocols == ["v1"]
            assert second.session.versions().protocols == ["v1"]
            assert stat.S_IMODE(os.stat(place.path).st_mode) == 0o600
            assert os.listdir(os.path.dirname(place.path)) == ["head.grpc"]
    finally:
        place.close()
    assert os.listdir(os.path.dirname(place.path)) == []


def test_one_whom_nobody_asks_ends_as_well_and_what_another_left_is_no_hindrance(tmp_path: Path) -> None:
    Place(tmp_path).close()
    (tmp_path / "sockets" / "head.grpc").touch()
    place = Place(tmp_path)
    place.close()
    assert os.listdir(tmp_path / "sockets") == []


def test_a_server_that_can_not_start_says_why_once_and_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any) -> None:
        raise OSError("no more threads")

    monkeypatch.setattr(server_module, "Server", fails)
    place = Place(tmp_path)
    try:
        with place.client() as client, pytest.raises(SessionEndedError, match="the head can't be reached"):
            client.session.versions()
        assert place.head.logged == ["the control plane can't be served: OSError: no more threads"]
        assert not os.path.exists(place.path)
    finally:
        place.close()


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ([], "came without the session's token"),
        ([("authorization", f"Bearer {bytes(32).hex()}")], "came with a wrong token"),
        ([("authorization", f"Bearer {TOKEN.hex()} ")], "came with a wrong token"),
        ([("authorization", TOKEN.hex())], "came with a wrong token"),
        ([("authorization", "Bearer ")], "came with a wrong token"),
        ([("authorization", f"Bearer {TOKEN.hex()}")] * 2, "came with a wrong token"),
    ],
)
@pytest.mark.parametrize("path", ["/kernel.v1.Session/Versions", "/kernel.v1.PubSub/Subscribe", "/nobody/Knows"])
def test_no_call_is_answered_without_the_token(place: Place, metadata: Any, said: str, path: str) -> None:
    place.head.logged.clear()
    with grpc.insecure_channel(place.address) as channel:
        call = channel.stream_stream(path)(iter([b""]), metadata=metadata, timeout=SECONDS)
        with pytest.raises(grpc.RpcError) as failure:
            list(call)
    assert failure.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert failure.value.details() == f"the call {said}"
    assert type(error_of(failure.value)) is NotAllowedError
    wait_until(lambda: place.head.logged, SECONDS, "a line in the log")
    assert place.head.logged == [f"call refused: a call of {path!r} {said}"] or "more within" in place.head.logged[0]


def test_the_client_raises_what_the_head_raises(cluster: ControlPlane, place: Place) -> None:
    with pytest.raises(NotKnownError, match="no job 'ffff' is known"):
        cluster.jobs.get(id="ffff")
    with pytest.raises(
        OptionError, match="'xyz' can't be the id of a job: expected hexadecimal digits, .*; List shows the ids"
    ):
        cluster.jobs.get(id="xyz")
    with pytest.raises(NotServedError, match="does not offer 'placement_groups'; a newer version of kernel may"):
        cluster.placement_groups.list()
    with pytest.raises(InternalError, match=r"KeyValue.Delete failed in the head: ZeroDivisionError: of the head's"):
        cluster.key_value.delete(namespace="n", key=b"k")
    line = "a call failed: KeyValue.Delete failed in the head: ZeroDivisionError: of the head's own"
    wait_until(lambda: line in place.head.logged, SECONDS, "a line in the log")


def test_the_client_refuses_what_the_protocol_has_not(cluster: ControlPlane) -> None:
    with pytest.raises(OptionError, match="its fields are page_size, page_token, running_only"):
        cluster.jobs.list(all=True)
    with pytest.raises(OptionError, match="its fields are namespace, key"):
        cluster.key_value.get(namespace=5)
    with pytest.raises(AttributeError, match="the service has no call 'remove'; it has list, get"):
        cluster.jobs.remove()


def test_bytes_that_are_no_request_and_methods_that_are_none(place: Place) -> None:
    metadata = [("authorization", f"Bearer {TOKEN.hex()}")]
    with grpc.insecure_channel(place.address) as channel:
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/kernel.v1.Jobs/Get")(b"\xff\xff\xff", metadata=metadata, timeout=SECONDS)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        said = "the 3 bytes that were sent to /kernel.v1.Jobs/Get can't be parsed as a kernel.v1.GetJobRequest"
        assert failure.value.details() == said and type(error_of(failure.value)) is ProtocolError
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/kernel.v1.Jobs/Gt")(b"", metadata=metadata, timeout=SECONDS)
        assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "there is no method '/kernel.v1.Jobs/Gt' here; there are /kernel.v1." in failure.value.details()
        with pytest.raises(grpc.RpcError) as failure:
            huge = messages.PutValueRequest(key=b"k", value=bytes(17 << 20)).SerializeToString()
            channel.unary_unary("/kernel.v1.KeyValue/Put")(huge, metadata=metadata, timeout=SECONDS)
        assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_value_is_given_as_it_was_put(cluster: ControlPlane) -> None:
    assert cluster.key_value.get(namespace="n", key=b"there").value == b"\x80pickled?"
    assert not cluster.key_value.get(namespace="n", key=b"gone").HasField("value")


def test_lists_come_in_pages(cluster: ControlPlane) -> None:
    first = cluster.jobs.list(page_size=10)
    assert [job.id for job in first.jobs] == [f"{number:04x}" for number in range(10)]
    second = cluster.jobs.list(page_size=10, page_token=first.next_page_token)
    assert second.jobs[0].id == "000a"
    assert len(cluster.jobs.list().jobs) == 1000, "no page is larger"
    assert [job.id for job in cluster.jobs.each()] == [f"{number:04x}" for number in range(2500)]
    assert list(cluster.key_value.each(page_size=1)) == [b"", b"\x00", b"a", b"\xff"]


def test_a_deadline_ends_the_waiting_and_what_was_not_begun_is_not_done(place: Place, cluster: ControlPlane) -> None:
    with place.head.stuck():  # for as long as the call waits
        with pytest.raises(GetTimeoutError):
            cluster.key_value.put(namespace="n", key=b"late", value=b"", seconds=0.3)
    assert cluster.session.versions().protocols == ["v1"]


def test_an_answer_that_comes_later_is_awaited_and_may_be_an_error(place: Place, cluster: ControlPlane) -> None:
    for answer in (pickle.dumps([("actor", "ab", "it waits")]), b"broken"):
        place.head.later = later = Deferred()
        threading.Timer(0.05, lambda later=later, answer=answer: place.head.do(lambda: later.set(answer))).start()
        if answer == b"broken":
            with pytest.raises(InternalError, match=r"Session.Explain failed in the head: UnpicklingError"):
                cluster.session.explain(id="ab")
        else:
            assert cluster.session.explain(id="ab").explanations[0].text == "it waits"


def test_messages_go_to_subscribers_and_a_large_one_is_refused(cluster: ControlPlane) -> None:
    assert cluster.pub_sub.publish(topic="t", data=b"nobody listens").subscribers == 0
    one, other = cluster.pub_sub.subscribe(topics=["t"]), cluster.pub_sub.subscribe(topics=["t", "u"])
    assert cluster.pub_sub.publish(topic="t", data=b"1").subscribers == 2
    assert cluster.pub_sub.publish(topic="u", data=b"2").subscribers == 1
    assert next(one).messages[0].data == b"1"
    assert [message.data for _ in range(2) for message in next(other).messages] == [b"1", b"2"]
    one.cancel()
    assert list(one) == []
    wait_until(
        lambda: cluster.pub_sub.publish(topic="t", data=b"3").subscribers == 1, SECONDS, "the end of a subscription"
    )
    other.cancel()
    with pytest.raises(OptionError, match=r"a message has at most 1,048,576 bytes, this one 1,048,577"):
        cluster.pub_sub.publish(topic="t", data=bytes((1 << 20) + 1))
    for topics in ([], [""]):
        with pytest.raises(OptionError, match="the topic is missing: give"):
            cluster.pub_sub.subscribe(topics=topics)


def test_a_slow_reader_is_told_what_it_missed_and_holds_nobody_up(cluster: ControlPlane) -> None:
    slow = cluster.pub_sub.subscribe(topics=["flood"])
    data = bytes(200_000)
    for number in range(200):
        cluster.pub_sub.publish(topic="flood", data=number.to_bytes(4, "big") + data)
    cluster.pub_sub.publish(topic="flood", data=b"last")
    numbers, missed, last = [], 0, b""
    while last != b"last":
        response = next(slow)
        missed += response.missed
        numbers += [message.data[:4] for message in response.messages]
        last = response.messages[-1].data
    slow.cancel()
    assert missed > 100 and len(numbers) + missed == 201
    assert numbers == [*sorted(numbers[:-1]), b"last"]


def test_events_come_while_somebody_listens(place: Place, cluster: ControlPlane) -> None:
    head = place.head
    with pytest.raises(OptionError, match="there are no events of the kind 'weather'; the kinds are node,"):
        cluster.events.watch(kinds=["weather"])
    stream = cluster.events.watch(kinds=[ACTOR])
    head.do(lambda: head.observation.note(ACTOR, ALIVE, b"\xab", 12.5, {"name": "A", "pid": 3, "cause": None}))
    (event,) = next(stream).events
    assert (event.kind, event.state, event.id, event.time) == (ACTOR, ALIVE, "ab", 12.5)
    assert dict(event.detail) == {"name": "A", "pid": "3"}
    stream.cancel()
    wait_until(lambda: not head.observation._observers, SECONDS, "the end of the feed")


def test_who_listens_waits_until_the_nodes_have_heard_of_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    head = place.head

    class UntilItIsHeard(threading.Timer):
        """Is over when the head has heard of the listener, however soon or late that is."""

        def run(self) -> None:
            wait_until(lambda: head.observation._observers, SECONDS, "the feed")
            self.function(*self.args)

    head.barrier, received = Deferred(), Deferred()
    received.set(None)
    with place.client() as client:
        with monkeypatch.context() as patch:
            patch.setattr(client_module, "threading", SimpleNamespace(Timer=UntilItIsHeard))
            with pytest.raises(GetTimeoutError, match="did not begin to answer"):
                client.events.watch()
        head.do(lambda: head.barrier.set(None))
        wait_until(lambda: not head.observation._observers, SECONDS, "the end of the feed")
        head.barrier = received
        client.events.watch().cancel()


ROW = {
    "placement_group_id": "00ff",
    "name": "gang",
    "namespace": "n",
    "strategy": "PACK",
    "state": "RESCHEDULING",
    "bundles": {1: {"GPU": 1.0}, 0: {"CPU": 2.0}},
    "bundles_to_node_id": {0: "abcd"},
    "is_detached": True,
    "job_id": "01",
    "cause": "node cdef is gone",
}


def test_placement_groups_where_the_head_has_them(place: Place, cluster: ControlPlane) -> None:
    removed: list[str] = []
    place.head.dispatcher.methods |= {
        "placement_groups": lambda caller: pickle.dumps([ROW, {**ROW, "placement_group_id": "00aa", "state": "NEW"}]),
        "remove_placement_group": lambda caller, id: removed.append(id),
    }
    try:
        assert [group.id for group in cluster.placement_groups.each()] == ["00aa", "00ff"]
        again = messages.PlacementGroupState["PLACEMENT_GROUP_STATE_RESCHEDULING"]
        (group,) = cluster.placement_groups.each(state=again)
        assert group == cluster.placement_groups.get(id="00FF").placement_group
        assert (group.name, group.namespace, group.strategy, group.detached) == ("gang", "n", "PACK", True)
        assert [(b.index, dict(b.resources), b.node_id) for b in group.bundles] == [
            (0, {"CPU": 2.0}, "abcd"),
            (1, {"GPU": 1.0}, ""),
        ]
        assert cluster.placement_groups.get(id="00aa").placement_group.state == 0, "a state of a newer head"
        cluster.placement_groups.remove(id="00ff")
        assert removed == ["00ff"]
        with pytest.raises(NotKnownError, match="no placement group 'beef' is known"):
            cluster.placement_groups.remove(id="beef")
    finally:
        del place.head.dispatcher.methods["placement_groups"], place.head.dispatcher.methods["remove_placement_group"]


def test_a_subscriber_that_gives_up_while_the_head_is_stuck_leaves_nothing_behind(place: Place) -> None:
    head = place.head
    with place.client() as client:
        client.session.versions()
        with head.stuck():
            with pytest.raises(GetTimeoutError):
                client.events.watch(seconds=0.2)
            impatient = place.client(seconds=0.2)
            with pytest.raises(GetTimeoutError, match="did not begin to answer within 0.2 s"):
                impatient.events.watch()
            impatient.close()
        client.session.versions()
        wait_until(lambda: not head.observation._observers, SECONDS, "the end of the feed")


def test_streams_end_with_the_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with place.client() as client:
        stream = client.events.watch()
        place.head.ending = "it was asked to stop"
        place.close()
        with pytest.raises(SessionEndedError, match="the session has ended: it was asked to stop"):
            next(stream)


def test_tls_ends_in_the_server_which_wants_a_certificate_and_takes_new_ones(tmp_path: Path) -> None:
    for name in ("good", "stranger"):
        certificates.create(tmp_path / name)
    good, stranger = (TlsFiles.of_directory(str(tmp_path / name)) for name in ("good", "stranger"))
    place = Place(tmp_path, good)
    try:
        with place.client() as client:
            assert client.session.versions().protocols == ["v1"]
        for wrong in (stranger, TlsFiles(stranger.certificate, stranger.key, good.authority)):
            with place.client(tls=wrong) as client, pytest.raises(SessionEndedError, match="the head can't be reached"):
                client.session.versions()
        with grpc.secure_channel(
            place.address,
            grpc.ssl_channel_credentials(Path(good.authority).read_bytes()),
            [("grpc.ssl_target_name_override", certificates.NODE_NAME)],
        ) as channel:
            with pytest.raises(grpc.RpcError) as failure:
                channel.unary_unary("/kernel.v1.Session/Versions")(b"", timeout=SECONDS)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE, "no certificate, no call"
        with place.client(token=bytes(32)) as client, pytest.raises(NotAllowedError, match="a wrong token"):
            client.session.versions()
        for name in (certificates.AUTHORITY, certificates.AUTHORITY_KEY):
            (tmp_path / "good" / name).unlink()
        certificates.create(tmp_path / "good")
        with place.client() as client:
            assert client.session.versions().protocols == ["v1"], "of the new authority"
    finally:
        place.close()


def test_a_client_without_its_files_says_which(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="The TLS file .*ca.pem can't be read".replace("The", "the")):
        certificates.create(tmp_path)
        (tmp_path / "ca.pem").unlink()
        ControlPlane("unix:/nowhere", TOKEN, TlsFiles.of_directory(str(tmp_path)))


def test_every_method_can_be_called_by_its_python_name() -> None:
    with ControlPlane("unix:/nowhere", TOKEN) as client:
        for method in METHODS.values():
            service = getattr(client, "".join(f"_{c.lower()}" if c.isupper() else c for c in method.service).strip("_"))
            assert callable(getattr(service, method.word))


def test_one_who_is_not_there_is_named(tmp_path: Path) -> None:
    with ControlPlane(f"unix:{tmp_path}/nobody", TOKEN, seconds=SECONDS) as client:
        with pytest.raises(SessionEndedError, match=r"No such file or directory.*; check its address, the token and"):
            client.session.versions()
