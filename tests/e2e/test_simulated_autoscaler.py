"""`kernel simulate --autoscaler`: the schedulers of one distribution on the nodes that another makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel.cli.main import main

LOAD = """
[[nodes]]
kind = "head"
count = 1
resources = { CPU = 1 }
[[work]]
name = "short"
tasks = 40
duration = { distribution = "uniform", least = 20, most = 60 }
[[work]]
name = "gang"
gangs = 1
bundles = [{ CPU = 4 }, { CPU = 4 }]
strategy = "STRICT_SPREAD"
duration = 60
"""
MACHINES = """
[kinds.small]
resources = {CPU = 4}
price = 0.2
boot_seconds = 30
[settings]
idle_seconds = 30
"""


def test_work_is_served_by_nodes_that_come_and_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load, machines = tmp_path / "load.toml", tmp_path / "machines.toml"
    load.write_text(LOAD)
    machines.write_text(MACHINES)
    assert main(["simulate", str(load), "--autoscaler", str(machines), "--check", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    said = report["scaling"]
    assert sum(work["done"] for work in report["work"]) == 41
    assert 10 <= said["launched"] <= 12 and (said["busy_ended"], said["flaps"]) == (0, 0)
    assert said["cost"] > said["bound"] > 0 and said["waiting"]["p99"] < 60.0
    assert main(["simulate", str(load), "--autoscaler", str(machines)]) == 0
    shown = capsys.readouterr().out
    assert "cost / bound" in shown and "busy nodes ended" in shown


def test_a_file_that_lacks_kinds_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machines = tmp_path / "machines.toml"
    machines.write_text("[settings]\nidle_seconds = 30\n")
    assert main(["simulate", "--scenario", "burst", "--nodes", "1", "--autoscaler", str(machines)]) == 2
    assert capsys.readouterr().err.strip() == f"kernel: {machines} lacks 'kinds'"
