"""By which connection a process reaches whom, which requests wait for whom, and why a session is over."""

from __future__ import annotations

import os
import pickle
from functools import partial
from typing import Any

import pytest

from kernel_engine.messages import process_messages as op
from kernel_processes.protocol.identity import Peer
from kernel_processes.protocol.pickled import Pickled
from kernel_processes.runtime.peer_connections import PeerConnections
from kernel_processes.runtime.peer_requests import AnsweredRequest, PeerRequest, PeerRequests
from kernel_processes.runtime.session_end import SessionEnd
from kernel_spec.errors import OptionError, SessionEndedError
from kernel_spec.ids import ProcessId

ONE, TWO = ProcessId(b"process1"), ProcessId(b"process2")


class Link:
    """Stands for a connection."""

    def __init__(self, incoming: bool = False, fd: int = 5) -> None:
        self.incoming = incoming
        self.fd = fd
        self.info: Any = None
        self.ends: list[str] = []
        self.close = self.give_up = self.ends.append


def introduced(peers: PeerConnections, process: ProcessId = ONE, address: str = "", **details: Any) -> Any:
    link: Any = Link(**details)
    peers.introduced(link, Peer(process, "worker", 10, address))
    return link


def dialled(peers: PeerConnections, **details: Any) -> Any:
    link: Any = Link(**details)
    peers.dialled(link, ONE, "here:1")
    return link


def test_messages_go_over_one_of_several_connections_as_long_as_it_lives() -> None:
    peers = PeerConnections()
    first, second = dialled(peers), introduced(peers, incoming=True)
    assert first.info.via is first and second.info.via is first and peers.sending == {ONE: first}
    peers.all.discard(first)
    assert not peers.lost(first, "it broke") and peers.sending == {ONE: second}
    peers.all.discard(second)
    assert peers.lost(second, "it broke") and peers.sending == {} and second.ends == []


def test_the_end_of_a_spare_connection_changes_nothing() -> None:
    peers = PeerConnections()
    first, spare = dialled(peers), introduced(peers, incoming=True)
    peers.all.discard(spare)
    assert not peers.lost(spare, "it broke") and peers.sending == {ONE: first}


def test_to_hear_from_a_peer_is_not_enough_when_it_was_never_reached() -> None:
    peers = PeerConnections()
    never, incoming = dialled(peers, fd=-1), introduced(peers, incoming=True)
    other = introduced(peers, TWO)
    peers.all.discard(never)
    assert peers.lost(never, "nobody is there") and incoming.ends == ["nobody is there"] and other.ends == []


def test_a_peer_that_dials_again_has_given_up_its_connection() -> None:
    peers = PeerConnections()
    old, new = introduced(peers, incoming=True), introduced(peers, incoming=True)
    assert old.ends == ["the peer has given up this connection and opened another"] and new.ends == []


def test_connections_are_found_by_process_and_by_node() -> None:
    peers = PeerConnections()
    one = introduced(peers, ONE, "tcp://10.0.0.1:6380/aa")
    two = introduced(peers, TWO, "tcp://10.0.0.2:6380/bb")
    peers.all.add(Link())  # type: ignore[arg-type]  # a stranger
    assert peers.of({ONE}, "") == [one]
    assert peers.of((), "10.0.0.2:6380") == [two]
    assert peers.of((), "") == []


# -- requests ----------------------------------------------------------------------------------------------------------


def test_an_answer_ends_the_request_of_its_number() -> None:
    requests, link = PeerRequests(), Link()
    connection: Any = link
    first, second, third = (requests.begin(connection) for _ in range(3))
    requests.on_reply(connection, (op.REPLY, second.number, "value"))
    requests.on_reply(connection, (op.REPLY_PICKLED, third.number, pickle.dumps("row")))
    assert first.remaining and not second.remaining and second.value == "value"
    assert isinstance(third.value, Pickled) and third.value.load() == "row"
    requests.on_reply(connection, (op.REPLY_ERROR, first.number, pickle.dumps(OptionError("no"))))
    assert first.failed and isinstance(first.take_error(), OptionError)
    requests.on_reply(connection, (op.REPLY, second.number, "again"))
    assert second.value == "value"


def test_nobody_hears_of_a_request_that_is_forgotten() -> None:
    requests, connection = PeerRequests(), Link()
    request = requests.begin(connection)  # type: ignore[arg-type]
    requests.forget(request)
    requests.forget(request)
    requests.on_reply(connection, (op.REPLY, request.number, 1))  # type: ignore[arg-type]
    assert request.remaining


def test_what_nobody_waits_for_is_told_if_there_is_an_answer() -> None:
    requests, told = PeerRequests(), []  # type: ignore[var-annotated]
    connection: Any = Link()
    answered, failed = (requests.begin(connection, partial(AnsweredRequest, told.append)) for _ in range(2))
    requests.on_reply(connection, (op.REPLY, answered.number, "an answer"))
    requests.fail("the connection broke")
    assert told == ["an answer"] and failed.failed


def test_a_request_has_no_answer_before_it_comes() -> None:
    request = PeerRequest(7, Link())  # type: ignore[arg-type]
    assert request.value is None and not request.failed
    with pytest.raises(AssertionError):
        request.take_error()


@pytest.mark.parametrize("granted_first", [False, True])
def test_what_is_granted_to_a_request_that_was_withdrawn_is_undone_once(granted_first: bool) -> None:
    requests, undone = PeerRequests(), []  # type: ignore[var-annotated]
    connection: Any = Link()
    request = requests.begin(connection)
    steps = [
        lambda: requests.withdraw(request, lambda: undone.append(True)),
        lambda: requests.on_reply(connection, (op.REPLY, request.number, 1)),
    ]
    for step in reversed(steps) if granted_first else steps:
        step()
    assert undone == [True]


def test_requests_fail_with_their_connection_and_all_at_the_end() -> None:
    requests = PeerRequests()
    one: Any = Link()
    other: Any = Link()
    first, second = requests.begin(one), requests.begin(other)
    requests.fail("the connection broke", one)
    assert first.failed and not second.failed
    requests.fail("the session was shut down")
    assert second.failed and str(second.take_error()) == "the session was shut down"


# -- the end of the session --------------------------------------------------------------------------------------------


def why(end: SessionEnd) -> str:
    error = end.error()
    assert isinstance(error, SessionEndedError)
    return str(error)


def test_what_the_agent_has_said_itself_explains_the_end() -> None:
    end = SessionEnd()
    assert "its objects with it: its node agent died; call kernel.shutdown()" in why(end)
    end.lost("its node agent died (reset)")
    end.lost("another cause")
    assert ": its node agent died (reset); call" in why(end)
    end.announced("it was asked to stop\nand more lines")
    end.lost("its node agent died (eof)")
    assert ": it was asked to stop; call kernel.shutdown() and kernel.init() to begin another\nand more" in why(end)


def test_a_process_that_became_another_user_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    end = SessionEnd()
    assert end.of_changed_user(PermissionError()) == ""
    monkeypatch.setattr(os, "geteuid", lambda: 8)
    assert end.of_changed_user(ConnectionRefusedError()) == ""
    assert end.of_changed_user(PermissionError()).startswith("this process began as user 7 and became user 8, who may")
