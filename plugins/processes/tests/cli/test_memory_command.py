"""What `kernel memory` makes of what processes and stores say at different moments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from kernel_processes.cli import memory_command

MADE, TAKEN, WAITED = (bytes([number]) * 20 for number in range(3))
OWNER = b"owner---"


def shown(monkeypatch: pytest.MonkeyPatch, rows: list[tuple[Any, ...]], stored: list[tuple[Any, ...]]) -> Any:
    """Return what is printed as JSON when one process has `rows` and its node's store has `stored`."""
    process = {"process": OWNER, "role": "driver", "pid": 1, "name": "", "held": 0, "count": len(rows), "bytes": 0}
    usage = {"used": 0, "capacity": 100, "objects": len(stored), "pinned": 0, "spilled": 0}
    found = {"usage": usage, "stored": stored, "processes": [{**process, "rows": rows}], "memory": {}}
    answer = (None, {**found, "silent": [], "silent_nodes": []})
    monkeypatch.setattr(memory_command, "ask_session", lambda *arguments: answer)
    return json.loads(CliRunner().invoke(memory_command.memory, ["--json"], catch_exceptions=False).stdout)


def test_an_owner_that_has_said_since_that_an_object_is_ready_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (MADE, 100, "stored", "LOCAL_REFERENCE", "(put object)", 1, []),
        (TAKEN, 100, "stored", "LOCAL_REFERENCE", "(put object)", 1, []),
        (WAITED, None, "pending", "LOCAL_REFERENCE", "(task call)", 1, []),
    ]
    stored = [
        (MADE, OWNER, 100, "writing", {}, False),
        (TAKEN, OWNER, 100, "spilled", {}, False),
        (WAITED, OWNER, 70, "writing", {}, False),
    ]
    found = shown(monkeypatch, rows, stored)
    states = {row["object_id"]: (row["size"], row["state"]) for row in found["processes"][0]["objects"]}
    assert states == {MADE.hex(): (100, "stored"), TAKEN.hex(): (100, "spilled"), WAITED.hex(): (70, "writing")}
    assert found["unreferenced"] == []
