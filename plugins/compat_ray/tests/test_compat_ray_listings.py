"""The listings of Ray's state API: how many rows each shows."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_compat_ray import listings

import kernel
from kernel_spec.errors import OptionError


def test_only_the_state_api_stops_after_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"state": "ALIVE", "namespace": "", "num_restarts": 0, "class_name": "Counter"}
    rows = [{**row, "actor_id": f"{number:040x}"} for number in range(150)]
    monkeypatch.setattr(kernel, "list_state", lambda kind, filters, limit, detail: rows[:limit])
    assert len(listings.list_actors()) == 100
    assert len(listings.list_actors(limit=120)) == 120
    assert len(listings.actors()) == 150
    assert listings.actors(f"{149:040x}")["State"] == "ALIVE"


def test_columns_and_states_may_be_named_as_ray_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def list_state(kind: str, filters: Any, limit: int, detail: bool) -> list[dict[str, Any]]:
        asked.append((kind, filters))
        return [{"actor_id": state, "state": state, "namespace": "n"} for state in ("STARTING", "ALIVE")]

    monkeypatch.setattr(kernel, "list_state", list_state)
    found = listings.list_actors(filters=[("ray_namespace", "=", "n"), ("state", "=", "pending_creation")])
    assert [(row.actor_id, row.state, row["ray_namespace"]) for row in found] == [("STARTING", "PENDING_CREATION", "n")]
    assert asked == [("actors", [("namespace", "=", "n")])]
    assert [row.actor_id for row in listings.list_actors(filters=[("state", "!=", "PENDING_CREATION")])] == ["ALIVE"]
    assert found[0].repr_name is None, "of which nothing is known here"


@pytest.mark.parametrize("timeout", [0.5, "a", None])
def test_timeouts_are_whole_seconds(timeout: Any) -> None:
    with pytest.raises(OptionError, match="timeout must be a whole number of seconds"):
        listings.list_tasks(timeout=timeout)
    with pytest.raises(TypeError, match="nope"):
        listings.list_tasks(nope=1)


def test_events_of_a_task_are_when_it_came_into_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = {"task_id": "01", "state": "FAILED", "start_time_ms": 5, "end_time_ms": 9}
    waits = {"task_id": "02", "state": "PENDING_ARGS_AVAIL", "start_time_ms": None, "end_time_ms": None}
    monkeypatch.setattr(kernel, "list_state", lambda kind, filters, limit, detail: [ended, waits])
    first, second = listings.list_tasks(detail=True)
    assert first.events == [{"state": "RUNNING", "created_ms": 5}, {"state": "FAILED", "created_ms": 9}]
    assert second.events == []
