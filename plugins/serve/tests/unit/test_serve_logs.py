"""The access log, its file, and what user code logs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_serve import context
from kernel_serve.api.deployment import deployment
from kernel_serve.context import ReplicaContext, RequestContext, enter_request, leave_request
from kernel_serve.errors import DeploymentError
from kernel_serve.logs import access as access_module
from kernel_serve.logs import logger
from kernel_serve.logs.access import Access, AccessLog, lines
from kernel_serve.logs.places import file_name
from kernel_serve.logs.records import RequestFilter, add_request
from kernel_serve.logs.rotating import RotatingFile
from kernel_serve.logs.setup import LOGGERS, configure_logging
from kernel_serve.settings import LoggingConfig


def request(path: str = "/a/b", **others: Any) -> Access:
    return (
        others.get("time", 1_700_000_000.25), others.get("id", "id-1"), "GET", path, "/a", 200, 1.5,
        others.get("size", 12), others.get("client", ("127.0.0.1", 5)), "app#Model", "app#Model#1", "HTTP/1.1",
    )  # fmt: skip


def test_a_line_is_an_object_whatever_the_client_sent() -> None:
    nasty = '/x"\n\\\x00\u2028é'
    (line,) = lines([request(nasty)]).splitlines()
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z", "request_id": "id-1", "method": "GET", "path": nasty, "route": "/a",
        "status": 200, "milliseconds": 1.5, "bytes": 12, "client": "127.0.0.1:5", "deployment": "app#Model",
        "replica": "app#Model#1", "protocol": "HTTP/1.1",
    }  # fmt: skip
    (line,) = lines([request("/" + "x" * 99_999, id="y" * 99_999, size=None, client=None)]).splitlines()
    said = json.loads(line)
    assert len(line) < 5000 and said["bytes"] is None and said["client"] == ""


def test_lines_are_written_in_order_after_a_moment_or_when_there_are_many(tmp_path: Path) -> None:
    path = tmp_path / "access.log"

    async def run() -> None:
        log = AccessLog(RotatingFile(str(path)))
        log.note(request(id="first"))
        assert not path.exists()
        deadline = asyncio.get_running_loop().time() + 120
        while not (path.exists() and path.read_text()) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        assert len(path.read_text().splitlines()) == 1
        for number in range(access_module.FLUSH_LINES + 1):
            log.note(request(id=str(number)))
        log.close()

    asyncio.run(run())
    ids = [json.loads(line)["request_id"] for line in path.read_text().splitlines()]
    assert ids == ["first", *map(str, range(access_module.FLUSH_LINES + 1))]


def test_a_disk_that_is_too_slow_loses_lines_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "_MOST_WAITING", 0)
    path = tmp_path / "access.log"

    class Slow(RotatingFile):
        def write(self, data: bytes) -> None:
            go_on.acquire()
            super().write(data)

    import threading

    go_on = threading.Semaphore(0)

    async def run() -> None:
        log = AccessLog(Slow(str(path)))
        for id in ("kept", "lost", "lost", "kept too"):
            if id == "kept too":
                go_on.release(10)
                log._thread.submit(lambda: None).result()
            log.note(request(id=id))
            log.flush()
        log.close()
        assert log.dropped == 2

    asyncio.run(run())
    said = [json.loads(line) for line in path.read_text().splitlines()]
    assert [each.get("request_id") for each in said] == ["kept", None, "kept too"]
    assert said[1] == {"lost_lines": 2}


def test_a_file_rotates_and_takes_no_more_room_than_it_was_given(tmp_path: Path) -> None:
    file = RotatingFile(str(tmp_path / "log"), file_bytes=100, files=3)
    for number in range(50):
        file.write(f"{number:029d}\n".encode())
    file.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    kept = [(tmp_path / name).read_text().split() for name in ("log.2", "log.1", "log")]
    assert [int(each) for lines in kept for each in lines] == list(range(42, 50))
    assert all((tmp_path / name).stat().st_size <= 100 for name in ("log", "log.1", "log.2"))


def test_a_file_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    file = RotatingFile(str(tmp_path / "missing" / "log"))
    file.write(b"line\n")
    assert file.lost == 5


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(context, "_replica_of_process", ReplicaContext("shop", "Till", "shop#Till#7"))
    before = {name: (logging.getLogger(name).handlers, logging.getLogger(name).propagate) for name in LOGGERS}
    token = enter_request(RequestContext("id-9", "/till"))
    yield
    leave_request(token)
    for name, (handlers, propagate) in before.items():
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(logging.NOTSET)


def test_lines_of_user_code_carry_the_request(replica: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LoggingConfig(), "shop#Till#7")
    logging.getLogger("kernel.serve").info("sold %d", 3)
    logging.getLogger("ray.serve.mine").debug("not wanted")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" INFO shop#Till#7 id-9: sold 3")


def test_json_lines_have_what_was_given_besides(
    replica: None, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = LoggingConfig("JSON", "DEBUG", str(tmp_path / "logs"), additional_log_standard_attrs=("threadName",))
    configure_logging(config, "shop#Till#7")
    try:
        raise KeyError("till")
    except KeyError:
        logging.getLogger("kernel.serve").exception("broken", extra={"drawer": Path("x")})
    said = json.loads(capsys.readouterr().err)
    assert said == json.loads((tmp_path / "logs" / "shop-Till-7.log").read_text())
    assert "KeyError: 'till'" in said.pop("exception") and said.pop("time").endswith("Z") and said.pop("line") > 0
    assert said == {
        "level": "ERROR", "logger": "kernel.serve", "message": "broken", "request_id": "id-9", "route": "/till",
        "application": "shop", "deployment": "Till", "replica": "shop#Till#7", "file": "test_serve_logs.py",
        "threadName": "MainThread", "drawer": "x",
    }  # fmt: skip
    configure_logging(LoggingConfig(log_level="ERROR"), "shop#Till#7")
    logging.getLogger("ray.serve").warning("not wanted now")
    assert capsys.readouterr().err == ""


def test_what_serve_says_itself_is_an_event_with_fields(replica: None, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LoggingConfig(), "shop#Till#7")
    log = logger("part")
    log.debug("not wanted")
    try:
        raise KeyError("till")
    except KeyError:
        log.exception("100 % broken", replica="shop#Till#7", number=3)
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith(" ERROR shop#Till#7 id-9: 100 % broken: replica='shop#Till#7' number=3")
    assert others[-1] == "KeyError: 'till'"


def test_other_handlers_can_have_the_request_too(replica: None) -> None:
    record = logging.makeLogRecord({"msg": "x"})
    assert RequestFilter().filter(record)
    assert (record.request_id, record.deployment) == ("id-9", "Till")  # type: ignore[attr-defined]
    assert add_request(None, "info", {"event": "x"})["request_id"] == "id-9"


def test_a_logging_config_is_checked_when_it_is_declared() -> None:
    class Till: ...

    declared = deployment(Till, logging_config=LoggingConfig("JSON"))
    assert declared.settings.logging_config["encoding"] == "JSON"
    with pytest.raises(DeploymentError, match="logging_config has no setting 'log_levle'; did you mean 'log_level'"):
        deployment(Till, logging_config={"log_levle": "INFO"})
    with pytest.raises(DeploymentError, match='encoding of logging_config is "TEXT" or "JSON", not \'json\''):
        deployment(Till, logging_config={"encoding": "json"})
    with pytest.raises(DeploymentError, match="log_level of logging_config is a level such as \"DEBUG\", not 'LOUD'"):
        deployment(Till, logging_config={"log_level": "LOUD"})


def test_names_of_files_are_plain() -> None:
    assert file_name("app#Model#1/../x y") == "app-Model-1-..-x-y"
    assert file_name("#") == "unnamed"
