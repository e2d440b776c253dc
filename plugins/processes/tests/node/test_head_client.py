"""What a node and its head say to each other, and what both say to processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_client import HeadClient
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_relay import RelayToHead, RelayToProcesses
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

WORKER = ProcessId(b"worker-1")


class Log:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def exception(self, text: str, **details: Any) -> None:
        self.said.append((text, details))


class Processes:
    """Keeps what processes are told and asked."""

    def __init__(self) -> None:
        self.connections: dict[ProcessId, Any] = {WORKER: "its connection"}
        self.told: list[tuple[ProcessId, Any]] = []
        self.asked: list[tuple[Any, ...]] = []

    def send(self, process: ProcessId, message: Any) -> None:
        self.told.append((process, message))

    def ask(self, connection: Any, method: str, then: Any, *arguments: Any) -> None:
        self.asked.append((connection, method, arguments))
        then("its answer")


def linked() -> tuple[HeadClient, list[Any]]:
    """Return a client and what its head is sent."""
    log: Any = Log()
    head, sent = HeadClient(log), []  # type: ignore[var-annotated]
    head.link(sent.append)
    return head, sent


def answer(number: int, value: Any) -> Any:
    return packed(head_messages.AskAnswered(number=number, value=value))


def test_what_is_sent_before_there_is_a_link_goes_first() -> None:
    log: Any = Log()
    head, sent = HeadClient(log), []  # type: ignore[var-annotated]
    send = head.send
    send((1, "early"))
    send((2, "early too"))
    assert not head.linked
    head.link(sent.append)
    send((3, "late"))
    assert head.linked and sent == [(1, "early"), (2, "early too"), (3, "late")]


def test_each_message_goes_to_who_has_entered_itself_for_it() -> None:
    log: Any = Log()
    head, stopped, dropped = HeadClient(log), [], []  # type: ignore[var-annotated]
    head.on(head_messages.EndNode, stopped.append)
    head.handlers[head_messages.DROP_WORKER] = lambda *fields: dropped.append(fields)
    head.handle(packed(head_messages.EndNode(reason="it was asked to stop")))
    head.handle((head_messages.DROP_WORKER, b"lease", True, False))
    assert stopped == [head_messages.EndNode(reason="it was asked to stop")] and dropped == [(b"lease", True, False)]
    assert log.said == []


def test_what_raises_or_nobody_takes_is_logged_and_the_next_is_handled() -> None:
    log: Any = Log()
    head, stopped = HeadClient(log), []  # type: ignore[var-annotated]
    head.on(head_messages.JobEnded, lambda said: 1 // 0)
    head.on(head_messages.EndNode, stopped.append)
    for message in (packed(head_messages.JobEnded(job=b"job")), (99999, "?"), packed(head_messages.EndNode(reason=""))):  # type: ignore[arg-type]
        head.handle(message)
    text = "a message of the head could not be handled"
    assert [said for said, _ in log.said] == [text, text] and log.said[1][1] == {"word": 99999}
    assert len(stopped) == 1


def test_a_node_answers_now_or_later() -> None:
    head, sent = linked()
    later: list[Any] = []
    head.methods["report"] = lambda then, objects: then({"objects": objects})
    head.methods["copy"] = lambda then, rows, place: later.append((then, rows, place))
    head.handle(packed(head_messages.AskNode(number=1, method="copy", arguments=(["row"], "there:1"))))
    head.handle(packed(head_messages.AskNode(number=2, method="report", arguments=(True,))))
    assert sent == [answer(2, {"objects": True})]
    ((then, rows, place),) = later
    then(3)
    assert (rows, place) == (["row"], "there:1") and sent[1:] == [answer(1, 3)]


def test_the_head_asks_processes_and_hears_of_those_that_are_gone() -> None:
    (head, sent), processes = linked(), Processes()
    RelayToProcesses(head, processes, OpenRequests())  # type: ignore[arg-type]
    for number, process in ((1, WORKER), (2, ProcessId(b"gone----"))):
        said = head_messages.AskProcess(number=number, process=process, method="ping", arguments=(5,))
        head.handle(packed(said))
    assert processes.asked == [("its connection", "ping", (5,))]
    assert sent == [answer(1, "its answer"), answer(2, None)]


def test_requests_are_remembered_until_the_head_has_answered() -> None:
    (head, sent), processes, requests = linked(), Processes(), OpenRequests()
    requests.watch = True
    RelayToProcesses(head, processes, requests)  # type: ignore[arg-type]
    connection: Any = SimpleNamespace(info=SimpleNamespace(id=WORKER))
    call = (op.CALL, 7, "jobs", ())
    relay = RelayToHead(head, requests)
    assert op.REQUEST_LEASE in relay.handlers and op.STORE_PIN not in relay.handlers
    relay.pass_on(connection, call)
    assert sent == [(head_messages.FROM_PROCESS, WORKER, call)]
    assert list(requests.to_resend([])) == sent
    head.handle((head_messages.TO_PROCESS, WORKER, (op.REPLY, 7, "none")))
    assert processes.told == [(WORKER, (op.REPLY, 7, "none"))] and list(requests.to_resend([])) == []
