"""Lists of what a session has: rows, filters, summaries, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel.api.listing_filters import parse_filter
from kernel.api.listings import KINDS, row_of, rows_of, summary_of
from kernel_spec.errors import OptionError


def task(number: int, name: str, state: str, pid: int | None = 1) -> dict[str, Any]:
    row = {"task_id": f"{number:02x}", "name": name, "func_or_class_name": name, "state": state, "worker_pid": pid}
    return {
        **row,
        "type": "NORMAL_TASK",
        "actor_id": None,
        "error_message": "ValueError: no" if state == "FAILED" else None,
    }


TASKS = [task(1, "load", "FINISHED"), task(2, "load", "FAILED", 2), task(3, "train", "RUNNING", None)]
ACTOR = {"actor_id": "aa", "class_name": "A", "state": "ALIVE", "detached": True, "restarts": 2, "namespace": "n"}


def ask(name: str, *arguments: Any) -> Any:
    if name == "actors":
        return [ACTOR]
    waiting = [{**row, "worker": str(row["worker_pid"]), "attempt_number": 0} for row in TASKS]
    workers = {str(row["worker_pid"]): {"worker_pid": row["worker_pid"]} for row in TASKS}
    return {"ended": [], "waiting": [({"job_id": None}, waiting)], "workers": workers, "silent": {b"p": (7, "ab")}}


def ids(*filters: Any, limit: int = 100, kind: str = "tasks") -> list[str]:
    return [row[KINDS[kind].id] for row in rows_of(ask, kind, filters, limit, False)]


def test_filters_must_all_hold() -> None:
    assert ids() == ["01", "02", "03"]
    assert ids(("state", "=", "failed")) == ["02"], "case does not matter"
    assert ids(("state", "!=", "FAILED"), ("name", "=", "load")) == ["01"]
    assert ids(("name", "=", "load"), ("name", "=", "train")) == []
    assert ids(("worker_pid", "=", "2")) == ids(("worker_pid", "=", 2)) == ["02"]
    assert ids(["name", "!=", "load"]) == ["03"]
    assert ids(("is_detached", "=", "True"), kind="actors") == ids(("is_detached", "=", 1), kind="actors") == ["aa"]
    assert ids(("is_detached", "=", "false"), kind="actors") == []
    assert ids(limit=2) == ["01", "02"] and ids(limit=0) == []


def test_details_are_shown_when_asked_for() -> None:
    (plain, *_), (detailed, *_) = (rows_of(ask, "tasks", None, 1, detail) for detail in (False, True))
    assert "error_message" not in plain and detailed["error_message"] is None
    assert list(plain) == list(KINDS["tasks"].columns)
    assert row_of(ask, "tasks", "02")["error_message"] == "ValueError: no"  # type: ignore[index]
    assert row_of(ask, "actors", "aa")["num_restarts"] == 2  # type: ignore[index]
    assert row_of(ask, "tasks", "ff") is None


def test_processes_that_did_not_answer_are_named() -> None:
    with capture_logs() as lines:
        rows_of(ask, "tasks", None, 100, False)
    [line] = lines
    assert line["event"].endswith("its tasks are missing here") and (line["pid"], line["node"]) == (7, "ab")


def test_a_summary_counts_states() -> None:
    assert summary_of(ask, "tasks") == {
        "load": {"func_or_class_name": "load", "state_counts": {"FINISHED": 1, "FAILED": 1}, "type": "NORMAL_TASK"},
        "train": {"func_or_class_name": "train", "state_counts": {"RUNNING": 1}, "type": "NORMAL_TASK"},
    }


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ([("stat", "=", "x")], r"tasks can't be filtered by 'stat'; did you mean 'state'\?"),
        ([("nope", "=", "x")], "tasks can't be filtered by 'nope'; tasks can be filtered by task_id, attempt_number"),
        ([("required_resources", "=", "x")], "tasks can't be filtered by 'required_resources'"),
        ([("state", "<", "x")], "a filter compares with = or !=, not with '<'"),
        ([("state", "=")], "a filter is a column"),
        (("state", "=", "x"), "a filter is a column"),
        ("state=x", "filters must be a list such as"),
        ([("name", "=", ["x"])], "the value of a filter must be text, a number, True or False"),
        ([("worker_pid", "=", "x")], "worker_pid is a number, not 'x'"),
    ],
)
def test_filters_that_can_not_be_are_refused(filters: Any, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        rows_of(ask, "tasks", filters, 100, False)


@pytest.mark.parametrize("limit", [-1, "a", None, 2.5, True])
def test_limits_that_can_not_be_are_refused(limit: Any) -> None:
    with pytest.raises(OptionError, match="limit must be a count"):
        rows_of(ask, "tasks", None, limit, False)


def test_kinds_that_there_are_not_are_refused() -> None:
    with pytest.raises(OptionError, match="there is no list of 'task'; there are lists of actors, tasks"):
        rows_of(ask, "task", None, 1, False)
    with pytest.raises(OptionError, match="there is no summary of nodes; there is one of actors, tasks, objects"):
        summary_of(ask, "nodes")
    with pytest.raises(OptionError, match="tasks are found by task_id, a non-empty string, not 5"):
        row_of(ask, "tasks", 5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="is_detached is true or false, not 'maybe'"):
        rows_of(ask, "actors", [("is_detached", "=", "maybe")], 1, False)


def test_filters_of_the_command_line() -> None:
    assert parse_filter("state=FAILED") == ("state", "=", "FAILED")
    assert parse_filter("name!=a=b") == ("name", "!=", "a=b")
    for text in ("state", "=x", "!=x"):
        with pytest.raises(OptionError, match="is not a filter; write COLUMN=VALUE"):
            parse_filter(text)
