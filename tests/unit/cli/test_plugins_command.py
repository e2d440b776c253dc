"""`kernel plugins list | info | check | new`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kernel.cli.plugins_command import plugins
from kernel.installing import install_command
from kernel.plugins import KINDS, PluginManager

GOOD = """
from kernel.defaults.scheduler import LocalScheduler
from kernel_spec import hookimpl

CONFORMANCE = {"scheduler": {"most_times_slower": 10_000}}

class Observer:
    def observe(self, events):
        pass

@hookimpl
def kernel_contracts():
    return {"scheduler": 1, "observer": 1}

@hookimpl
def kernel_schedulers():
    return {"fifo": LocalScheduler}

@hookimpl
def kernel_observers():
    return [Observer()]
"""

Kernel = Callable[..., Result]


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Kernel:
    """Run `kernel plugins ...` where the plugins `good` (a dist-info and a module) and `sad` are installed."""
    (tmp_path / "cli_good_plugin.py").write_text(GOOD)
    (tmp_path / "cli_sad_plugin.py").write_text("raise OSError('out of luck')\n")
    for name, module in (("good", "cli_good_plugin"), ("sad", "cli_sad_plugin")):
        info = tmp_path / f"kernel_{name}-3.2.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: kernel-{name}\nVersion: 3.2.1\n")
        libraries = "[kernel.libraries]\ngoodies = kernel_goodies\n" if name == "good" else ""
        (info / "entry_points.txt").write_text(f"[kernel.plugins]\n{name} = {module}\n{libraries}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for variable in ("KERNEL_SCHEDULER", "KERNEL_CONFIG", "KERNEL_METADATA_STORE", "KERNEL_PLUGINS", "KERNEL_ENGINE"):
        monkeypatch.delenv(variable, raising=False)
    discover = PluginManager.discover
    # Only these two, whatever else is installed where the tests run.
    installed = [("good", "cli_good_plugin"), ("sad", "cli_sad_plugin")]
    monkeypatch.setattr(PluginManager, "discover", lambda: discover(installed=installed))
    request.addfinalizer(lambda: sys.modules.pop("cli_good_plugin", None))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(plugins, list(arguments), prog_name="kernel plugins")

    return run


def test_list_shows_what_there_is(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_METADATA_STORE", "sqlite")
    result = kernel("list")
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split(None, 1)[-1] for line in result.output.splitlines() if line}
    assert lines["good"].split(None, 1) == ["3.2.1", "scheduler/1 fifo*, observer/1"]
    assert lines["sad"].split(None, 1) == ["3.2.1", "broken: OSError: out of luck"]
    assert "scheduler/1 local," in lines["local"] and "spill_target/1 disk*" in lines["local"]
    shown = {name: re.split(r"  +", line) for name, line in lines.items()}
    assert shown["CONTRACT"] == ["FILLED BY", "CHOSEN BY", "ALSO INSTALLED"]
    assert shown["scheduler"] == ["fifo (good)", "default", "local"]
    assert shown["metadata_store"] == ["(not installed: sqlite)", "environment KERNEL_METADATA_STORE", "memory (local)"]
    assert shown["environment"] == ["env_vars working_dir py_modules (local)", "the fields of a runtime_env"]
    assert shown["observer"] == ["good", "all are used"]
    assert shown["cli_command"] == ["-", "all are used"]
    assert {"engine", "network", *KINDS, "control_plane"} < set(shown)
    assert lines["kernel.goodies"].split() == ["3.2.1", "kernel_goodies"]


def test_list_as_json(kernel: Kernel) -> None:
    data = json.loads(kernel("list", "--json").stdout)
    rows = {row["name"]: row for row in data["plugins"]}
    assert rows["good"] == {
        "name": "good",
        "distribution": "kernel-good",
        "version": "3.2.1",
        "target": "cli_good_plugin",
        "contracts": {"scheduler": 1, "observer": 1},
        "hooks": ["kernel_contracts", "kernel_observers", "kernel_schedulers"],
        "offers": {"scheduler": ["fifo"]},
        "problem": "",
    }
    assert rows["sad"]["problem"] == "OSError: out of luck"
    (scheduler,) = (row for row in data["contracts"] if row["contract"] == "scheduler")
    assert scheduler == {
        "contract": "scheduler",
        "filled_by": [{"name": "fifo", "origin": "good"}],
        "chosen_by": "default",
        "also_installed": [{"name": "local", "origin": "local"}],
        "missing": [],
    }
    assert data["selected"]["scheduler"] == {"names": ["fifo"], "source": "default", "missing": []}
    assert {"name": "goodies", "package": "kernel_goodies", "version": "3.2.1"} in data["libraries"]


def test_info(kernel: Kernel) -> None:
    output = kernel("info", "good").output
    assert "distribution: kernel-good 3.2.1" in output
    assert "contracts:    scheduler 1, observer 1" in output
    assert "offers:       scheduler: fifo" in output
    assert json.loads(kernel("info", "good", "--json").stdout)["version"] == "3.2.1"


def test_info_shows_where_a_plugin_broke(kernel: Kernel) -> None:
    output = kernel("info", "sad").output
    assert "problem:      OSError: out of luck" in output
    assert 'cli_sad_plugin.py", line 1' in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "goood"], "there is no plugin 'goood', did you mean 'good'?"),
        (["check", "xyz"], "there is no plugin 'xyz'; there are local, good, sad"),
        (["info", "fifo"], "there is no plugin 'fifo', did you mean 'good', which offers something of that name?"),
        (["lits"], "there is no command 'kernel plugins lits', did you mean 'list'?"),
        (["new", "schedular", "x"], "there is no kind of plugin 'schedular', did you mean 'scheduler'?"),
        (
            ["new", "scheduler", "Bad Name"],
            "'Bad Name' can't name a plugin: use small letters and digits in words joined by - or _, such as my_plugin",
        ),
        (["new", "library", "class"], "'class' can't name a library: it is a word of the Python language"),
        (["new", "scheduler", "x", "--path", "cache"], "cache is there already and not empty: choose another folder "),
    ],
)
def test_unknown_things_are_answered_in_one_line(kernel: Kernel, arguments: list[str], message: str) -> None:
    Path("cache").mkdir(exist_ok=True)
    Path("cache", "file").touch()
    result = kernel(*arguments)
    assert result.exit_code == 2
    assert [line for line in result.stderr.splitlines() if line.startswith("Error: ")] == result.stderr.splitlines()[
        -1:
    ]
    assert result.stderr.splitlines()[-1].startswith(f"Error: {message}")


def test_check_tries_everything(kernel: Kernel) -> None:
    result = kernel("check", "good")
    assert result.exit_code == 0, result.output
    assert "passed  scheduler fifo: grants at once what fits" in result.output
    assert "passed  observer Observer: takes every kind of event" in result.output
    assert result.output.splitlines()[-1].startswith("good: ")
    assert ", 0 failed, in " in result.output.splitlines()[-1]
    quiet = kernel("check", "--quiet", "good")
    assert len(quiet.output.splitlines()) == 1


def test_check_of_the_built_in_plugin(kernel: Kernel) -> None:
    result = kernel("check", "local")
    assert result.exit_code == 0, result.output


def test_check_of_an_engine(kernel: Kernel) -> None:
    result = kernel("check", "--quiet", "--engine", "local")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("local: ") and ", 0 failed, in " in result.output
    unknown = kernel("check", "--engine", "loca")
    assert unknown.exit_code == 1
    assert "the engine 'loca' can't be checked: there is no engine named 'loca'" in unknown.stderr


def test_check_of_a_network(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    result = kernel("check", "--network", "tcp")
    assert result.exit_code == 0, result.output
    assert "passed  network tcp: an object comes from another node" in result.output
    assert ", 0 failed, in " in result.output.splitlines()[-1]
    unknown = kernel("check", "--network", "tpc")
    assert unknown.exit_code == 1
    said = "the network 'tpc' can't be checked: there is no network named 'tpc' (KERNEL_NETWORK), did you mean 'tcp'?"
    assert said in unknown.stderr
    monkeypatch.setitem(sys.modules, "kernel_processes.transport.reactor", None)
    alone = kernel("check", "--network", "tcp")
    assert alone.exit_code == 1
    assert "the network 'tcp' can't be checked: a network works in the loop of the engine of many " in alone.stderr
    monkeypatch.setitem(sys.modules, "kernel_network_tcp.network", None)
    broken = kernel("check", "--network", "tcp")
    assert broken.exit_code == 1
    assert "kernel_network_tcp.network:network can't be imported: ModuleNotFoundError: " in broken.stderr
    both = kernel("check", "--network", "--engine", "tcp")
    assert both.exit_code == 2
    assert "'tcp' is either an engine or a network: give --engine or --network, not both" in both.stderr


def test_check_says_what_failed_and_goes_on(kernel: Kernel, tmp_path: Path) -> None:
    lazy = (
        "\nclass Lazy(LocalScheduler):\n"
        "    def handle(self, event, now):\n"
        "        super().handle(event, now)\n"
        "        return []\n"
    )
    text = GOOD.replace('{"fifo": LocalScheduler}', '{"fifo": LocalScheduler, "lazy": Lazy}')
    (tmp_path / "cli_good_plugin.py").write_text(text + lazy)
    result = kernel("check", "good")
    assert result.exit_code == 1
    assert "FAILED  scheduler lazy: grants at once what fits" in result.output
    assert "which it never granted or which are over" in result.output
    assert "passed  scheduler fifo: grants at once what fits" in result.output


def test_check_refuses_flags_that_do_not_exist(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "cli_good_plugin.py").write_text(GOOD.replace("most_times_slower", "most_times_slow"))
    result = kernel("check", "good")
    assert result.exit_code == 1
    assert "CONFORMANCE['scheduler'] sets most_times_slow, which SchedulerConformance does not have" in result.stderr


def test_check_without_the_suites_says_what_to_install(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("kernel.conformance")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr("kernel.mounts._package", lambda library: None)
    monkeypatch.setattr("kernel.mounts._mounted", {})
    result = kernel("check", "good")
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "Error: the plugin 'good' can't be checked: the library kernel.conformance is not installed: "
        f"{install_command('conformance')}\n"
    )


def test_check_of_a_broken_plugin(kernel: Kernel) -> None:
    result = kernel("check", "sad")
    assert result.exit_code == 1
    assert "the plugin 'sad' is broken, nothing to check: OSError: out of luck" in result.stderr


def test_new_writes_a_distribution(kernel: Kernel, tmp_path: Path) -> None:
    result = kernel("new", "scheduler", "priority")
    assert result.exit_code == 0
    folder = tmp_path / "kernel-scheduler-priority"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "CHANGELOG.md",
        "README.md",
        "kernel_scheduler_priority/__init__.py",
        "kernel_scheduler_priority/plugin.py",
        "kernel_scheduler_priority/scheduler.py",
        "pyproject.toml",
        "tests/test_kernel_scheduler_priority.py",
    ]
    assert 'cd kernel-scheduler-priority && pip install -e ".[test]" && pytest' in result.output


def test_a_bad_configuration_is_one_line(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "kernel.toml").write_text("[plugins]\nsheduler = 'x'\n")
    result = kernel("list")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1 and "did you mean 'scheduler'?" in result.stderr


def test_help_has_examples(kernel: Kernel) -> None:
    assert "kernel plugins new scheduler priority" in kernel("--help").output
    for command in ("info", "check", "new"):
        assert f"Example: kernel plugins {command}" in kernel(command, "--help").output
