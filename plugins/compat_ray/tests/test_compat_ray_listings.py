"""The listings of Ray's state API: how many rows each shows."""

from __future__ import annotations

import pytest
from kernel_compat_ray import listings

import kernel


def test_only_the_state_api_stops_after_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"state": "ALIVE", "namespace": "", "restarts": 0, "detached": False, "cause": "", "class_name": "Counter"}
    monkeypatch.setattr(kernel, "actors", lambda: [{**row, "actor_id": f"{number:040x}"} for number in range(150)])
    assert len(listings.list_actors()) == 100
    assert len(listings.list_actors(limit=120)) == 120
    assert len(listings.actors()) == 150
    assert listings.actors(f"{149:040x}")["State"] == "ALIVE"
