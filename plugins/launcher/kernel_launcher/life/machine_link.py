"""A machine of a cluster, logged in to: its steps are done and recorded, commands run where they should."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from kernel_launcher.errors import MachineError
from kernel_launcher.files.copying import copy_mount
from kernel_launcher.files.patterns import Patterns
from kernel_launcher.plan import ClusterPlan
from kernel_launcher.ssh.connection import Finished, SshConnection
from kernel_launcher.steps.container import container_name, end_container, has_container
from kernel_launcher.steps.machine import (
    ClusterMachine,
    cluster_directory,
    program_variables,
    session_directory,
    variables,
)
from kernel_launcher.steps.shell_words import in_container, in_login_shell
from kernel_launcher.steps.step import INSIDE, OUTSIDE, MachineStep

_LINES = 12
"""How many of the last lines of a command that failed are shown."""
_NOT_FOUND = 127


class MachineLink:
    """A machine of a cluster and the connection to it.

    `open` tells `machine` where its files are, and `done` which steps were done. `on_line` is told what is done.
    """

    def __init__(self, plan: ClusterPlan, role: str, connection: SshConnection, on_line: Callable[[str], None]) -> None:
        self.plan = plan
        self.role = role
        self.connection = connection
        self.machine = ClusterMachine(role, connection.host, "")
        self.done: dict[str, str] = {}
        self._say = on_line

    @property
    def name(self) -> str:
        """Return what the machine is called in messages."""
        return self.connection.entry

    @property
    def directory(self) -> str:
        """Return where the machine keeps what belongs to the cluster."""
        return cluster_directory(self.plan, self.machine.home)

    def open(self, seconds: float = 10.0, head: str = "", address: str = "", provider_id: str = "") -> None:
        """Log in, and read what was done. Raises MachineError."""
        self.connection.open(seconds)
        home = self.read_done()
        self.machine = ClusterMachine(self.role, address or self.connection.host, home, head, provider_id)

    def read_done(self) -> str:
        """Read which steps were done, and return the home directory. Raises MachineError."""
        finished = self.connection.run(_prepare(self.plan))
        if finished.code:
            raise MachineError(f"{self.name}: nothing can be kept in ~/.kernel: {_last(finished.errors)}")
        home, *lines = finished.output.splitlines()
        self.done = {name: key for name, _, key in (line.partition(":") for line in lines)}
        return home

    def close(self) -> None:
        """End the connection."""
        self.connection.close()

    # -- commands --------------------------------------------------------------------------------------------------

    def line(self, command: str, place: str = INSIDE, program: bool = False, terminal: bool = False) -> str:
        """Return what runs a command there: in the container if there is one. `program`: it joins the cluster."""
        found = program_variables(self.plan, self.machine) if program else variables(self.plan, self.machine)
        inner = in_login_shell(command, found)
        if place == OUTSIDE or not has_container(self.plan, self.role):
            return inner
        return self._contained(inner, terminal)

    def run(self, command: str, place: str = INSIDE, program: bool = False, seconds: float | None = None) -> Finished:
        """Run a command, and return how it ended."""
        return self.connection.run(self.line(command, place, program), seconds=seconds)

    def must(self, command: str, what: str, place: str = INSIDE) -> str:
        """Run a command that has to succeed, and return what it printed. Raises MachineError with its last lines."""
        finished = self.run(command, place)
        if finished.code:
            raise self.failed(what, finished)
        return finished.output

    def failed(self, what: str, finished: Finished) -> MachineError:
        """Return the error for a command that failed."""
        said = _last(finished.errors) or _last(finished.output) or "it says nothing"
        hint = ""
        if finished.code == _NOT_FOUND and "kernel: command not found" in finished.errors:
            hint = "; let the cluster file install kernel, by a command under setup_commands, in its PATH"
        return MachineError(f"{self.name}: {what} ended with exit code {finished.code}: {said}{hint}")

    @contextlib.contextmanager
    def send(self, command: str) -> Iterator[IO[bytes]]:
        """Run a plain command with a pipe to its input."""
        with self.connection.pour(self._plain(command)) as process:
            assert process.stdin is not None
            yield process.stdin

    @contextlib.contextmanager
    def receive(self, command: str) -> Iterator[IO[bytes]]:
        """Run a plain command with a pipe from its output."""
        with self.connection.pour(self._plain(command), receive=True) as process:
            assert process.stdout is not None
            yield process.stdout

    def _plain(self, command: str) -> str:
        if not has_container(self.plan, self.role):
            return command
        return self._contained(command)

    def _contained(self, command: str, terminal: bool = False) -> str:
        """Return what runs a command in the container: where its program is, a login shell knows."""
        assert self.plan.container is not None
        program, name = self.plan.container.program, container_name(self.plan)
        return in_login_shell(in_container(program, name, command, terminal), {})

    def write_private(self, name: str, text: str) -> None:
        """Write a file of the cluster's directory that nobody else can read. The text goes over the input."""
        file = shlex.quote(f"{self.directory}/{name}")
        command = f"umask 077 && cat > {file}.new && mv -f {file}.new {file}"
        finished = self.connection.run(command, text.encode())
        if finished.code:
            raise MachineError(f"{self.name}: {self.directory}/{name} can't be written: {_last(finished.errors)}")

    def read_file(self, name: str) -> str | None:
        """Return what is in a file of the cluster's directory, None where there is none."""
        file = shlex.quote(f"{self.directory}/{name}")
        finished = self.connection.run(f"if [ -e {file} ]; then cat {file}; else exit 3; fi")
        if finished.code == 3:
            return None
        if finished.code:
            raise MachineError(f"{self.name}: {self.directory}/{name} can't be read: {_last(finished.errors)}")
        return finished.output

    # -- the life of a node ----------------------------------------------------------------------------------------

    def do(self, step: MachineStep, patterns: Callable[[], Patterns]) -> None:
        """Do a step and record it. Raises MachineError where it fails; the next `up` goes on with it."""
        self._say(f"{self.name}: {' '.join(step.title.split())[:100]}")
        if step.files is not None:
            copy_mount(self, step.files.local, step.files.remote, patterns())
        else:
            self.must(step.command, f"the step `{' '.join(step.title.split())}`", step.place)
        if self.done.get(step.id) != step.key:
            file = shlex.quote(f"{self.directory}/steps/{step.id}")
            finished = self.connection.run(f"printf %s {shlex.quote(step.key)} > {file}")
            if finished.code:
                raise MachineError(f"{self.name}: {file} can't be written: {_last(finished.errors)}")
            self.done[step.id] = step.key

    def status(self) -> dict[str, Any] | None:
        """Return what `kernel status` says of this machine's session of the cluster, None where none runs."""
        directory = shlex.quote(session_directory(self.plan, self.machine.home))
        if has_container(self.plan, self.role):
            finished = self.run("kernel status --json")
        else:
            finished = self.run(f"[ -d {directory} ] && kernel status --json")
        if finished.code:
            return None
        try:
            found: dict[str, Any] = json.loads(finished.output[finished.output.index("{") :])
        except ValueError:
            raise MachineError(f"{self.name}: kernel status answers {finished.output[:80]!r}") from None
        return found

    def stop(self, force: bool = False) -> None:
        """End this machine's node of the cluster, and nothing else that runs there."""
        directory = shlex.quote(session_directory(self.plan, self.machine.home))
        stop = "kernel stop --force" if force else "kernel stop"
        if has_container(self.plan, self.role):
            assert self.plan.container is not None
            self.run(stop)
            self.connection.run(in_login_shell(end_container(self.plan), {}))
        else:
            finished = self.run(f"if [ -d {directory} ]; then {stop}; fi")
            if finished.code:
                raise self.failed("kernel stop", finished)

    def forget(self) -> None:
        """Remove what the machine keeps of the cluster: its token, its configuration, which steps were done."""
        directories = [self.directory, session_directory(self.plan, self.machine.home)]
        finished = self.connection.run(f"rm -rf {shlex.join(directories)}")
        if finished.code:
            raise MachineError(f"{self.name}: {directories[0]} can't be removed: {_last(finished.errors)}")

    def attach(self, command: str, forward: Sequence[int] = (), terminal: bool = False, place: str = INSIDE) -> int:
        """Run a program with this terminal's input and output, and return its exit code."""
        return self.connection.attach(self.line(command, place, True, terminal), terminal, forward)


def link(
    plan: ClusterPlan, role: str, entry: str, state: Path, on_line: Callable[[str], None], alias: str = ""
) -> MachineLink:
    """Return the link to a machine, not opened yet. Raises OptionError for what is no host."""
    return MachineLink(plan, role, SshConnection(entry, plan.ssh, state, alias), on_line)


def address_of(status: dict[str, Any]) -> str:
    """Return where a head listens, as HOST:PORT, from what `kernel status` says."""
    (head,) = [row for row in status["nodes"] if row["IsHead"]]
    return f"{head['NodeManagerAddress']}:{head['NodeManagerPort']}"


def _prepare(plan: ClusterPlan) -> str:
    """Return the command that makes the cluster's directory, and prints the home directory and the steps done."""
    steps = f'"$HOME"/.kernel/cluster/{shlex.quote(plan.key)}/steps'
    return (
        f'umask 077; mkdir -p {steps} || exit 1; echo "$HOME"; cd {steps} && for f in *; do '
        f'if [ -f "$f" ]; then printf "%s:" "$f"; cat "$f"; echo; fi; done'
    )


def _last(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LINES:])
