"""Loads in files: what is understood, what is refused and how, and what a timeline becomes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import pytest
from kernel_simulation import SCENARIOS, NodeKind, load_from, load_of_timeline, read_load, scenario, write_load
from kernel_simulation.distributions import Distribution
from kernel_simulation.load_values import VALUES

from kernel_spec.errors import OptionError

NODES = [{"kind": "plain", "count": 2, "resources": {"CPU": 4}}]
WORK = {"name": "short", "tasks": 10, "duration": 1.0}

TOML = """
tick_seconds = 0.5

[[nodes]]
kind = "cpu"
count = 3
resources = { CPU = 16, memory = 64e9 }
labels = { zone = "a" }
fails_every = 3600
back_after = 60

[[work]]
name = "short"
tasks = 100
processes = 2
duration = { distribution = "lognormal", mean = 2, sigma = 1 }
arrival = { process = "poisson", rate = 50 }
strategy = "SPREAD"
hints = { priority = 3 }

[[work]]
name = "training"
gangs = 2
duration = 60
bundles = [{ CPU = 8 }, { CPU = 8 }]

[[changes]]
at = 30
action = "drain"
kind = "cpu"
"""


def test_a_toml_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    load = read_load(path)
    assert (load.name, load.tick_seconds, load.grant_seconds) == ("mine", 0.5, 0.001)
    assert load.nodes == (NodeKind("cpu", 3, {"CPU": 16.0, "memory": 64e9}, {"zone": "a"}, 3600.0, 60.0),)
    short, training = load.work
    assert (short.form, short.count, short.processes, short.hints) == ("tasks", 100, 2, {"priority": 3})
    assert short.duration == Distribution("lognormal", {"mean": 2.0, "sigma": 1.0})
    assert (training.form, training.strategy, training.bundles) == ("gangs", "PACK", ({"CPU": 8.0}, {"CPU": 8.0}))
    assert training.duration == Distribution("fixed", {"seconds": 60.0})
    assert (load.changes[0].at, load.changes[0].action, load.changes[0].kind) == (30.0, "drain", "cpu")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_written_load_is_read_as_the_same(tmp_path: Path, name: str) -> None:
    load = scenario(name, 20, 1000)
    write_load(load, tmp_path / "load.json")
    assert read_load(tmp_path / "load.json") == load


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"nodes": []}, "there must be at least one entry in nodes"),
        ({"nodes": 3}, "nodes must be a list of tables, not 3"),
        ({"work": [3]}, r"work\[0\] must be a table, not 3"),
        ({"tick_second": 3}, "there is no key 'tick_second', did you mean 'tick_seconds'"),
        ({"tick_seconds": 0}, "tick_seconds must be a number above zero, not 0"),
        ({"nodes": [{"kind": "a", "count": 1}]}, r"nodes\[0\] \(a\) lacks resources"),
        ({"nodes": NODES * 2}, "two entries in nodes are called 'plain'"),
        ({"work": [{"name": "x", "duration": 1}]}, "by exactly one of tasks, actors, gangs"),
        ({"work": [{**WORK, "actors": 3}]}, "by exactly one of tasks, actors, gangs"),
        ({"work": [{**WORK, "count": 3}]}, "by exactly one of tasks, actors, gangs"),
        ({"work": [{**WORK, "tasks": 1.5}]}, r"work\[0\] \(short\): count must be a whole number above zero, not 1.5"),
        ({"work": [{**WORK, "tasks": 0}]}, "count must be a whole number above zero, not 0"),
        ({"work": [{**WORK, "proceses": 2}]}, "there is no key 'proceses', did you mean 'processes'"),
        ({"work": [{**WORK, "blocked": 1.5}]}, "blocked must be a share from 0 to 1, not 1.5"),
        ({"work": [{**WORK, "preemptible": 1}]}, "preemptible must be true or false, not 1"),
        ({"work": [{**WORK, "resources": {"CPU": -1}}]}, "resources must be a table of names and quantities"),
        ({"work": [{**WORK, "duration": "long"}]}, "duration must be seconds, or a table that names a distribution"),
        ({"work": [{**WORK, "duration": {"distribution": "exponential"}}]}, r"\(.*exponential with mean; lognormal"),
        ({"work": [{**WORK, "arrival": {"process": "poisson", "rate": 0}}]}, "arrival must be a table that names a"),
        ({"work": [{**WORK, "arrival": {"process": "times", "times": [1]}}]}, "has 1 times for 10 tasks"),
        ({"work": [{**WORK, "bundles": [{"CPU": 1}]}]}, "gangs have bundles, each with its resources"),
        ({"work": [{**WORK, "strategy": 3}]}, "strategy must be a text or a table, not 3"),
        ({"work": [{"name": "g", "gangs": 1, "duration": 1}]}, "gangs have bundles, each with its resources"),
        (
            {"work": [{"name": "g", "gangs": 1, "duration": 1, "bundles": [{"CPU": 1}], "blocked": 0.5}]},
            "only tasks wait inside get",
        ),
        (
            {"work": [{"name": "g", "gangs": 1, "duration": 1, "bundles": [{"CPU": 1}], "strategy": "WIDE"}]},
            "the strategy of gangs must be one of PACK, SPREAD, STRICT_PACK, STRICT_SPREAD, not 'WIDE'",
        ),
        ({"changes": [{"at": 1, "action": "explode"}]}, "action must be one of fail, drain, join"),
        ({"changes": [{"at": 1, "action": "fail", "kind": "plane"}]}, "no kind of node 'plane', did you mean 'plain'"),
        ({"changes": [{"at": 1, "action": "set_resource"}]}, "needs resource, the name of what is set"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as caught:
        load_from({"nodes": NODES, "work": [WORK], **change}, "mine.json")
    assert str(caught.value).startswith("mine.json: ")


def test_files_that_are_no_loads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.toml can't be read"):
        read_load(tmp_path / "none.toml")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(OptionError, match=r"bad\.json is not valid JSON"):
        read_load(tmp_path / "bad.json")
    (tmp_path / "bad.toml").write_text("{")
    with pytest.raises(OptionError, match=r"bad\.toml is not valid TOML \(JSON must be in a file called \.json\)"):
        read_load(tmp_path / "bad.toml")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(OptionError, match="a load is a table with nodes and work"):
        read_load(tmp_path / "list.json")
    with pytest.raises(OptionError, match="the load can't be written to"):
        write_load(scenario("burst", 1, 1), tmp_path / "none" / "load.json")


@pytest.mark.parametrize(
    ("word", "numbers", "expected"),
    [
        ("fixed", {"seconds": 3.0}, 3.0),
        ("uniform", {"least": 1.0, "most": 3.0}, 2.0),
        ("exponential", {"mean": 3.0}, 3.0),
        ("lognormal", {"mean": 3.0, "sigma": 1.0}, 3.0),
        ("values", {"values": [1.0, 2.0]}, 1.5),
    ],
)
def test_durations_have_the_mean_they_say(word: str, numbers: dict[str, Any], expected: float) -> None:
    drawn = Distribution(word, numbers).durations(20_000, Random("7"))
    assert len(drawn) == 20_000 and mean(drawn) == pytest.approx(expected, rel=0.05)
    assert drawn == Distribution(word, numbers).durations(20_000, Random("7"))


@pytest.mark.parametrize(
    ("word", "numbers", "first", "last"),
    [
        ("at_once", {}, 0.0, 0.0),
        ("at_once", {"begin": 5.0}, 5.0, 5.0),
        ("uniform", {"seconds": 10.0, "begin": 1.0}, 1.0, 11.0),
        ("poisson", {"rate": 100.0, "begin": 1.0}, 1.0, 11.0),
        ("times", {"times": [7.0, *range(999)]}, 0.0, 998.0),
    ],
)
def test_work_comes_when_it_says(word: str, numbers: dict[str, Any], first: float, last: float) -> None:
    drawn = Distribution(word, numbers).arrivals(1000, Random("7"))
    assert list(drawn) == sorted(drawn)
    assert drawn[0] == pytest.approx(first, abs=0.2) and drawn[-1] == pytest.approx(last, abs=1.5)


# -- timelines -----------------------------------------------------------------------------------------------------


def span(name: str, begun: float, seconds: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "cat": "task", "ph": "X", "ts": begun * 1e6, "dur": seconds * 1e6, "pid": 1, **more}


def test_a_timeline_becomes_a_load(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "worker"}},
        span("f", 1002.0, 0.5),
        span("g", 1003.0, 2.0),
        span("f", 1001.0, 0.25),
        span("part", 1001.0, 0.1, cat="profile"),
    ]
    path.write_text(json.dumps(events))
    load = load_of_timeline(path, [NodeKind("node", 2, {"CPU": 4})])
    f, g = load.work
    assert (f.name, f.count, g.name, g.count) == ("f", 2, "g", 1)
    assert list(f.arrival.arrivals(2, Random())) == [0.0, 1.0]
    assert list(f.duration.durations(2, Random())) == [0.25, 0.5]
    assert list(g.arrival.arrivals(1, Random())) == [2.0]
    write_load(load, tmp_path / "load.json")
    assert read_load(tmp_path / "load.json") == load
    path.write_text(json.dumps({"traceEvents": events}))
    assert load_of_timeline(path, load.nodes) == load


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "can't be read as a timeline"),
        ("3", "is not a timeline: expected a list of events"),
        ("[]", "has no call in it; write it with `kernel timeline`"),
        ('[{"ph": "X", "cat": "task", "ts": 1}]', "an event lacks ts or dur in microseconds"),
    ],
)
def test_what_is_no_timeline_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(OptionError, match=problem):
        load_of_timeline(path, [NodeKind("node", 2, {"CPU": 4})])


def test_the_guide_shows_a_load_and_every_key_and_scenario(tmp_path: Path) -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs" / "simulate.md").read_text(encoding="utf-8")
    path = tmp_path / "guide.toml"
    (load,) = [block.split("```")[0] for block in guide.split("```toml\n")[1:] if block.startswith("[[nodes]]")]
    path.write_text(load)
    assert [work.form for work in read_load(path).work] == ["tasks", "actors", "gangs"]
    inner = {"form", "work", "nodes", "changes"}
    assert [key for key in VALUES if f"`{key}`" not in guide and key not in inner] == []
    assert [name for name, (line, _) in SCENARIOS.items() if f"| `{name}` | {line} |" not in guide] == []
