"""A scaler adds nodes to a simulated cluster and takes them away, and hears what an autoscaler would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kernel_simulation import Load, NodeKind, Simulation
from kernel_simulation.distributions import Distribution
from kernel_simulation.load import GANGS, TASKS, Work
from kernel_simulation.scalers import make_scaler

from kernel.defaults.scheduler import LocalScheduler
from kernel_spec.errors import OptionError

HEAD = NodeKind("head", 1, {"CPU": 1.0})


class Scripted:
    """Does at each look what a test says, and notes what it heard."""

    prices: Mapping[str, float] = {"CPU": 0.5}

    def __init__(self, *script: tuple[float, tuple[Any, ...]]) -> None:
        self._script = list(script)
        self._now = 0.0
        self.heard: list[tuple[float, Mapping[str, Any]]] = []
        self.machines = 0

    def look(self, demand: Mapping[str, Any], now: float) -> Sequence[tuple[Any, ...]]:
        self._now = now
        self.heard.append((now, demand))
        due = [step for at, step in self._script if at <= now]
        self._script = [(at, step) for at, step in self._script if at > now]
        self.machines += sum((step[0] == "join") - (step[0] == "end") for step in due)
        named = {row["provider_id"]: row["node_id"] for row in demand["nodes"]}
        return [(word, named[what[0]]) if word in ("drain", "keep") else (word, *what) for word, *what in due]

    def report(self) -> Mapping[str, Any]:
        return {
            "node_hours": self._now / 3600,
            "cost": 1.0,
            "idle_cost": 0.5,
            "launched": 1,
            "busy_ended": 0,
            "flaps": 0,
        }


def run(scaler: Scripted, *work: Work) -> Any:
    return Simulation(Load("test", (HEAD,), work), LocalScheduler, check=True, scaler=scaler).run()


def fixed(seconds: float) -> Distribution:
    return Distribution("fixed", {"seconds": seconds})


def test_a_node_joins_when_its_machine_runs_serves_and_leaves() -> None:
    scaler = Scripted((0.0, ("join", "m", {"CPU": 4.0}, {}, 30.0)), (50.0, ("drain", "m")), (60.0, ("end", "m")))
    report = run(scaler, Work("large", TASKS, 2, fixed(10.0), resources={"CPU": 2.0}))
    assert report.left == 0 and report.makespan == pytest.approx(40.0, abs=0.5)
    assert scaler.machines == 0 and scaler.heard[-1][0] >= 60.0, "it went on until the machine had gone"
    (_, first), (_, waiting) = scaler.heard[0], next(one for one in scaler.heard if one[1]["shapes"])
    assert [row["provider_id"] for row in first["nodes"]] == [""]
    (row,) = waiting["shapes"]
    assert (row["wanted"], row["requests"], row["backlog"]) == ({"CPU": 2.0}, 2, 0)
    states = {
        at: row["idle_seconds"] for at, said in scaler.heard for row in said["nodes"] if row["provider_id"] == "m"
    }
    assert states[35.0] is None and states[49.0] == pytest.approx(9.0, abs=0.5), "it was busy until about 40 s"


def test_a_drain_that_is_taken_back_leaves_the_node_at_work() -> None:
    scaler = Scripted(
        (0.0, ("join", "m", {"CPU": 2.0}, {}, 1.0)), (5.0, ("drain", "m")), (7.0, ("keep", "m")), (90.0, ("end", "m"))
    )
    report = run(scaler, Work("large", TASKS, 4, fixed(10.0), resources={"CPU": 2.0}))
    assert report.left == 0 and report.makespan == pytest.approx(41.0, abs=1.0)
    assert {row["state"] for at, said in scaler.heard if at in (6.0,) for row in said["nodes"]} == {"ALIVE", "DRAINING"}


def test_a_need_is_told_when_it_comes_and_groups_are_told_whole() -> None:
    bundles = ({"CPU": 2.0}, {"CPU": 1.0})
    gang = Work("gang", GANGS, 1, fixed(5.0), bundles=bundles, strategy="STRICT_SPREAD")
    scaler = Scripted((0.5, ("join", "m", {"CPU": 2.0}, {}, 2.0)), (20.0, ("end", "m")))
    report = run(scaler, gang)
    assert report.left == 0
    groups = [said["groups"] for _, said in scaler.heard if said["groups"]]
    assert groups[0][0]["bundles"] == {0: {"CPU": 2.0}, 1: {"CPU": 1.0}} and groups[0][0]["strategy"] == "STRICT_SPREAD"
    assert scaler.heard[1][0] < 1.0, "it was asked at once, not at the next second"


def test_the_report_has_the_bound_and_how_long_was_waited() -> None:
    scaler = Scripted((0.0, ("join", "m", {"CPU": 1.0}, {}, 0.0)), (100.0, ("end", "m")))
    report = run(scaler, Work("small", TASKS, 4, fixed(36.0)))
    assert report.scaling["bound"] == pytest.approx(4 * 36 / 3600 * 0.5)
    assert report.scaling["launched_per_piece"] == 0.25
    assert report.scaling["waiting"]["p99"] == pytest.approx(36.0, abs=1.0)


def test_an_autoscaler_that_nobody_offers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="^there is no autoscaler 'nothing' to simulate; there are: "):
        make_scaler("nothing", tmp_path, 0)
