"""What the head says to a node, what the node leaves for the head, and what both say to processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_processes.node.head_commands import HeadCommands
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.node.process_relay import RelayToHead, RelayToProcesses
from kernel_processes.node.to_head import ToHead
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


def linked() -> tuple[ToHead, list[Any]]:
    to_head, heard = ToHead(), []  # type: ignore[var-annotated]
    to_head.link(heard.append)
    return to_head, heard


def answer(number: int, value: Any) -> Any:
    return packed(head_messages.AskAnswered(number=number, value=value))


def test_what_is_left_before_there_is_a_head_is_the_first_that_it_hears() -> None:
    to_head, heard = ToHead(), []  # type: ignore[var-annotated]
    to_head.send((1, "early"))
    to_head.send((2, "early too"))
    assert not to_head.linked
    to_head.link(heard.append)
    to_head.send((3, "late"))
    assert to_head.linked and heard == [(1, "early"), (2, "early too"), (3, "late")]


def test_each_message_goes_to_who_has_entered_itself_for_it() -> None:
    log: Any = Log()
    commands, stopped, dropped = HeadCommands(ToHead(), log), [], []  # type: ignore[var-annotated]
    commands.on(head_messages.EndNode, stopped.append)
    commands.words[head_messages.DROP_WORKER] = lambda *fields: dropped.append(fields)
    commands.handle(packed(head_messages.EndNode(reason="it was asked to stop")))
    commands.handle((head_messages.DROP_WORKER, b"lease", True, False))
    assert stopped == [head_messages.EndNode(reason="it was asked to stop")] and dropped == [(b"lease", True, False)]
    assert log.said == []


def test_what_raises_or_nobody_takes_is_logged_and_the_next_is_handled() -> None:
    log: Any = Log()
    commands, stopped = HeadCommands(ToHead(), log), []  # type: ignore[var-annotated]
    commands.on(head_messages.JobEnded, lambda said: 1 // 0)
    commands.on(head_messages.EndNode, stopped.append)
    for message in (packed(head_messages.JobEnded(job=b"job")), (99999, "?"), packed(head_messages.EndNode(reason=""))):  # type: ignore[arg-type]
        commands.handle(message)
    text = "a message of the head could not be handled"
    assert [said for said, _ in log.said] == [text, text] and log.said[1][1] == {"word": 99999}
    assert len(stopped) == 1


def test_a_node_answers_now_or_later() -> None:
    to_head, heard = linked()
    later: list[Any] = []
    log: Any = Log()
    commands = HeadCommands(to_head, log)
    commands.methods["report"] = lambda then, objects: then({"objects": objects})
    commands.methods["copy"] = lambda then, rows, place: later.append((then, rows, place))
    commands.handle(packed(head_messages.AskNode(number=1, method="copy", arguments=(["row"], "there:1"))))
    commands.handle(packed(head_messages.AskNode(number=2, method="report", arguments=(True,))))
    assert heard == [answer(2, {"objects": True})]
    ((then, rows, place),) = later
    then(3)
    assert (rows, place) == (["row"], "there:1") and heard[1:] == [answer(1, 3)]


def test_the_head_asks_processes_and_hears_of_those_that_are_gone() -> None:
    to_head, heard = linked()
    log: Any = Log()
    commands, processes = HeadCommands(to_head, log), Processes()
    RelayToProcesses(commands, processes, OpenRequests(), to_head)  # type: ignore[arg-type]
    for number, process in ((1, WORKER), (2, ProcessId(b"gone----"))):
        said = head_messages.AskProcess(number=number, process=process, method="ping", arguments=(5,))
        commands.handle(packed(said))
    assert processes.asked == [("its connection", "ping", (5,))]
    assert heard == [answer(1, "its answer"), answer(2, None)]


def test_requests_are_remembered_until_the_head_has_answered() -> None:
    to_head, heard = linked()
    log: Any = Log()
    commands, processes, requests = HeadCommands(to_head, log), Processes(), OpenRequests()
    requests.watch = True
    RelayToProcesses(commands, processes, requests, to_head)  # type: ignore[arg-type]
    connection: Any = SimpleNamespace(info=SimpleNamespace(id=WORKER))
    call = (op.CALL, 7, "jobs", ())
    RelayToHead(requests, to_head).pass_on(connection, call)
    assert heard == [(head_messages.FROM_PROCESS, WORKER, call)]
    assert list(requests.to_tell([])) == heard
    commands.handle((head_messages.TO_PROCESS, WORKER, (op.REPLY, 7, "none")))
    assert processes.told == [(WORKER, (op.REPLY, 7, "none"))] and list(requests.to_tell([])) == []
