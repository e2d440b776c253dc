"""The command line itself: help, the one-line answers, options. No session runs here."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kernel.cli.main import COMMANDS, SEPARATE, main
from kernel.installing import install_command
from kernel_spec.version import __version__


@pytest.fixture(autouse=True)
def no_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for sessions in which there is none."""
    monkeypatch.setenv("KERNEL_TMPDIR", str(tmp_path))
    monkeypatch.delenv("KERNEL_ADDRESS", raising=False)
    yield tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert main(list(arguments)) == code
    output, errors = capsys.readouterr()
    assert output == "" and errors.count("\n") == 1, (output, errors)
    return errors.strip()


# -- help ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command_and_shows_the_first_to_type(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert shown.index("kernel start --head") < shown.index("Commands:")
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in shown and line in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_in_its_help_what_to_type(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: kernel {name}")
    assert f"\n    kernel {name}" in shown.split("Examples:")[1]
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_is_right(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command) and command.name == name


def test_a_command_of_what_is_not_installed_says_how_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "kernel_processes", None)  # type: ignore[arg-type]
    for name in [name for name in sys.modules if name.startswith("kernel_processes.")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["status"]) == 2
    assert f"the command 'kernel status' is not installed: {install_command('processes')}" in capsys.readouterr().err


def test_the_version_is_the_distribution_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"kernel {__version__}\n"


def test_help_loads_no_command() -> None:
    program = (
        "import sys\n"
        "from kernel.cli.main import main; main(['--help'])\n"
        "packages = ('kernel', 'kernel_conformance', 'kernel_processes')\n"
        "commands = [name for name in sys.modules if name.endswith('_command')]\n"
        "own = [name for name in commands if name.split('.')[0] in packages]\n"
        "print(own, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


# -- commands of plugins -------------------------------------------------------------------------------------------


class _Plugins:
    """Stands for the plugin manager."""

    problems: dict[str, Exception] = {}

    @classmethod
    def discover(cls) -> _Plugins:
        return cls()

    def all(self, kind: str) -> list[click.Command]:
        assert kind == "cli_command"

        @click.command("greet")
        def greet() -> None:
            """Greet somebody."""
            click.echo("hello")

        @click.command("stop")
        def stop() -> None:
            """Take a name that is ours."""
            click.echo("not ours")

        return [greet, stop]


def test_plugins_add_commands_and_replace_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel.plugins.PluginManager", _Plugins)
    monkeypatch.setattr("kernel.cli.main.cli._found", None)
    assert main(["--help"]) == 0
    assert "Commands of plugins:\n  greet  Greet somebody." in capsys.readouterr().out
    assert main(["greet"]) == 0
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == "hello\nNothing to stop: no session of yours is running.\n"
    assert "did you mean 'greet'?" in refused(capsys, "gret")


@pytest.mark.parametrize("name", SEPARATE)
def test_a_command_of_ours_that_is_not_installed_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("kernel.plugins.PluginManager", _Plugins)
    monkeypatch.setattr("kernel.cli.main.cli._found", None)
    line = refused(capsys, name, "--help")
    assert line == f"kernel: the command 'kernel {name}' is not installed: {install_command(SEPARATE[name])}"
    assert f"[{SEPARATE[name]}]" in line


# -- answers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["stat"], "kernel: there is no command 'kernel stat', did you mean 'status'?"),
        (["memroy"], "kernel: there is no command 'kernel memroy', did you mean 'memory'?"),
        (["plugins", "lst"], "kernel: there is no command 'kernel plugins lst', did you mean 'list'?"),
        (["plugins", "list", "--jsn"], "kernel: kernel plugins list: No such option '--jsn'. Did you mean '--json'?"),
        (["start"], "kernel: give --head to start a cluster on this machine (kernel start --head), or --address"),
        (["start", "--head", "--address=h:1"], "kernel: --head starts a cluster and --address joins one"),
        (["start", "--address=head"], "kernel: 'head' is no place to connect to: expected HOST:PORT"),
        (["start", "--address=h:1", "--scheduler=fifo"], "--scheduler is given where the head is started, and holds"),
        (["start", "--address=h:1", "--head-away-seconds=0"], "--head-away-seconds is given where the head is started"),
        (
            ["start", "--head", "--node-ip-address=0.0.0.0"],
            "other machines can't reach --node-ip-address 0.0.0.0; give an address",
        ),
        (["start", "--head", "--listen=0.0.0.0:1"], "--listen 0.0.0.0:1 needs --node-ip-address HOST"),
        (["start", "--head", "--tls=/nowhere"], "the TLS file /nowhere/node.pem can't be read"),
        (["start", "--head", "--token-file=/nowhere/t"], "the token file /nowhere/t can't be written: No such file"),
        (
            ["token", "10.0.0.1:6380"],
            "this machine has no node of the cluster at 10.0.0.1:6380; run kernel token on one of its machines",
        ),
        (
            ["microbenchmark", "--address", "10.0.0.1:6380"],
            "this machine has no node of the cluster at 10.0.0.1:6380; start one with: kernel start --address",
        ),
        (["drain"], "Missing argument 'NODE'"),
        (["status", "--address", "10.0.0.1:6380"], "the token of the cluster at 10.0.0.1:6380 is not known here: "),
        (["stop", "x", "--address", "10.0.0.1:6380"], "--address ends a cluster by asking its head, and goes with no"),
        (["status", "--address", "x"], "kernel: there is no session 'x': no session of yours is running;"),
        (["stop", "x"], "kernel: there is no session 'x': no session of yours is running;"),
        (["stop", ""], "kernel: '' is not the name of a session; without a name, all that `kernel start` started ends"),
        (["start", "--address=10.0.0.1:6379"], "the token of the cluster at 10.0.0.1:6379 is not known here: `kernel"),
        (["start", "--head", "--num-cpus", "many"], "'many' is not a valid float"),
        (["start", "--head", "--num-cpus", "-1"], "-1.0 is not in the range x>=0"),
        (["start", "--head", "--memory", "5parsecs"], "'5parsecs' is not a size; write bytes, or a number with"),
        (["start", "--head", "--resources", "{disk: 1}"], "is not a JSON object of quantities"),
        (["start", "--head", "--resources", '{"disk": "two"}'], "is not a JSON object of quantities"),
        (["start", "--head", "--resources", '{"CPU": 1}'], "must be given by init's own argument"),
        (["start", "--head", "--labels", "fast"], "'fast' is not a label; write NAME=VALUE"),
        (["start", "--head", "--labels", "zone=a b"], "label 'zone' can't have the value 'a b'"),
        (["start", "--head", "--labels-file", "/nowhere"], "no labels can be read from /nowhere: "),
        (["start", "--head", "--object-store-memory", "5B"], "object_store_memory must be at least 1 MB"),
        (["memory", "--sort", "age"], "'age' is not one of 'size', 'id', 'site'"),
        (["explain"], "Missing argument 'REF|ACTOR|GROUP'"),
    ],
)
def test_what_is_unknown_or_wrong_is_answered_in_one_line(
    capsys: pytest.CaptureFixture[str], no_sessions: Path, arguments: list[str], line: str
) -> None:
    assert line in refused(capsys, *arguments)
    assert not list(no_sessions.glob("kernel-*/*"))


@pytest.mark.parametrize("name", ["status", "memory", "logs", "stack", "timeline", "token"])
def test_without_a_session_every_question_says_how_to_start_one(capsys: pytest.CaptureFixture[str], name: str) -> None:
    line = refused(capsys, name, code=1)
    assert line == "kernel: no session of yours is running; start one with: kernel start --head"


def test_what_nobody_expected_is_one_line_too_and_can_be_looked_into(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(address: str | None, *question: str) -> None:
        raise RuntimeError("the roof\nis gone")

    monkeypatch.setattr("kernel_processes.cli.status_command.ask_session", break_down)
    line = refused(capsys, "status", code=1)
    assert line == "kernel: RuntimeError: the roof is gone (unexpected; KERNEL_TRACEBACK=1 shows where)"
    monkeypatch.setenv("KERNEL_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        main(["status"])


def test_ctrl_c_ends_a_command_quietly(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(address: str | None, *question: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kernel_processes.cli.status_command.ask_session", interrupt)
    assert main(["status"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_a_reader_that_has_left_is_told_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "kernel.cli.main", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_seconds_in_the_environment_that_are_none_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("KERNEL_HEAD_AWAY_SECONDS", text)
    line = refused(capsys, "start", "--head", "--port=0")
    assert line == f"kernel: KERNEL_HEAD_AWAY_SECONDS={text!r} must be a number of seconds, zero or more"
