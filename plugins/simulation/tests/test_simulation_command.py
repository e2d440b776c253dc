"""`kernel simulate`: what it prints, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from kernel.cli.main import cli, main


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["simulate", *arguments]) == code
    output, errors = capsys.readouterr()
    assert errors == ""
    return output


SMALL = ("--scenario", "two-jobs", "--nodes", "4", "--tasks", "200", "--seed", "3")


def test_two_schedulers_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, *SMALL, "--scheduler", "fifo", "--scheduler", "local", "--check")
    lines = shown.splitlines()
    assert lines[0] == "two-jobs: 4 nodes, 200 pieces of work, seed 3"
    assert lines[2].split() == ["fifo", "local"]
    table = {line[: line.index("  ")]: line.split()[-2:] for line in lines[3:] if "  " in line}
    assert table["done"] == ["200", "200"] and table["failed"] == ["0", "0"]
    assert {"makespan", "reclaims", "preemptions", "decisions a second", "a decision, p99"} <= table.keys()
    waiting = lines.index(next(line for line in lines if line.startswith("WAITING")))
    assert [line.split()[0] for line in lines[waiting + 1 :]] == ["large", "local", "small", "local"]


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    (report,) = json.loads(printed(capsys, *SMALL, "--json", "--scheduler", "local"))
    assert (report["scheduler"], report["seed"], report["load"]) == ("local", 3, "two-jobs")
    assert [work["done"] for work in report["work"]] == [196, 4]
    assert set(report["decisions"]["by_event"]) >= {"NodeAdded", "LeaseRequested", "LeaseReleased", "Tick"}
    assert report["decisions"]["count"] == sum(row["count"] for row in report["decisions"]["by_event"].values())


def test_a_load_is_written_edited_and_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    assert str(path) in printed(capsys, *SMALL, "--save", str(path))
    data = json.loads(path.read_text())
    data["work"][1]["resources"] = {"CPU": 99}
    path.write_text(json.dumps(data))
    shown = printed(capsys, str(path), "--scheduler", "local", code=1)
    assert "(unfinished)" in shown
    assert "local left 4 of 4 small: infeasible: no node ever has CPU: 99" in " ".join(shown.split())


def test_a_timeline_is_run_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    spans = [{"name": "f", "cat": "task", "ph": "X", "ts": 1e6 * n, "dur": 5e5, "pid": 1} for n in range(6)]
    path.write_text(json.dumps(spans))
    shown = printed(capsys, "--timeline", str(path), "--nodes", "1", "--cpus", "1", "--scheduler", "local")
    assert "trace: 1 nodes, 6 pieces of work" in shown and "6 of 6" in shown


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give one load: a file, --scenario NAME or --timeline FILE"),
        (["load.json", "--scenario", "burst"], "give one load"),
        (["--scenario", "burts"], "there is no scenario 'burts', did you mean 'burst'?"),
        (["none.json"], "none.json can't be read"),
        (["none.json", "--nodes", "3"], "--nodes is not for this kind of load; write it into the file"),
        (["--scenario", "burst", "--cpus", "3"], "--cpus is not for this kind of load"),
        (["--scenario", "burst", "--scheduler", "fofi"], "there is no scheduler named 'fofi'"),
        (["--scenario", "burst", "--nodes", "0"], "Invalid value for '--nodes'"),
    ],
)
def test_what_can_not_be_run_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    assert main(["simulate", *arguments]) == 2
    output, errors = capsys.readouterr()
    assert output == "" and errors.count("\n") == 1 and problem in errors


def test_its_help_says_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "--help")
    assert shown.startswith("Usage: kernel simulate")
    assert "\n    kernel simulate" in shown.split("Examples:")[1]
    assert max(map(len, shown.splitlines())) <= 80


def test_names_of_schedulers_are_completed() -> None:
    shell = ShellComplete(cli, {}, "kernel", "_KERNEL_COMPLETE")
    assert {item.value for item in shell.get_completions(["simulate", "--scheduler"], "loc")} == {"local"}
