"""Clusters on real machines: sshd processes, with the system's ssh. Each test says what a person would see."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from kernel_launcher.config.reading import read_plan
from kernel_launcher.errors import MachineError
from kernel_launcher.files.patterns import Patterns
from kernel_launcher.life.machine_link import link
from kernel_launcher.life.up import bring_up
from kernel_launcher.plan import HEAD
from kernel_launcher.steps.step import Wanted

from kernel.cli.main import cli
from kernel.testing.programs import need
from plugins.launcher.tests.machines import Machines

YAML = """
cluster_name: mine
provider: {{type: local, head_ip: "{head}", worker_ips: ["{worker}"]}}
auth: {{ssh_user: {user}, ssh_private_key: {key}}}
file_mounts: {{"~/code": code}}
rsync_exclude: ["*.pyc"]
setup_commands:
  - echo set up $(cat ~/code/version) >> ~/log
head_start_ray_commands: [ray stop, "ray start --head --num-cpus=0 --object-store-memory=80000000"]
worker_start_ray_commands:
  - ray stop
  - ray start --address=$RAY_HEAD_IP:6379 --num-cpus=2 --object-store-memory=80000000
"""
PROGRAM = """
import sys, kernel
kernel.init(log_to_driver=False)

@kernel.remote(num_cpus=1)
def double(x):
    return 2 * x

print("answer", kernel.get(double.remote(int(sys.argv[1]))), sys.argv[2:])
"""


class Launcher:
    """The command line, on a cluster file."""

    def __init__(self, directory: Path, machines: Machines, state: Path) -> None:
        self.file = directory / "cluster.yaml"
        self.state = state
        self.head, self.worker = machines.start("head"), machines.start("worker")
        (directory / "code").mkdir()
        (directory / "code" / "version").write_text("one")
        (directory / "code" / "a.pyc").write_text("")
        self.write(YAML, machines)

    def write(self, text: str, machines: Machines) -> None:
        self.file.write_text(
            text.format(head=self.head.entry, worker=self.worker.entry, user=machines.user, key=machines.key)
        )

    def __call__(self, command: str, *words: str, code: int = 0) -> str:
        found = CliRunner().invoke(
            cli, [command, str(self.file), *words], env={"KERNEL_LAUNCHER_DIRECTORY": str(self.state)}
        )
        assert found.exit_code == code, (found.output, found.exception)
        return found.output

    def real(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own, since what it prints comes from ssh."""
        environment = {**os.environ, "KERNEL_LAUNCHER_DIRECTORY": str(self.state)}
        return subprocess.run(
            [sys.executable, "-m", "kernel.cli.main", command, str(self.file), *words],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    need("sshd")
    found = Machines(tmp_path_factory.mktemp("machines"))
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def launcher(machines, tmp_path_factory):
    made = Launcher(tmp_path_factory.mktemp("here"), machines, tmp_path_factory.mktemp("state"))
    yield made
    made("down", "-y")


def log_of(machine):
    return (machine.home / "log").read_text().splitlines()


def test_a_cluster_from_up_to_down(launcher, machines, tmp_path):
    """One cluster for all of it: bringing one up takes seconds."""
    # Brought up, with its files, and once set up on each machine.
    assert "2 files" not in launcher("up")
    assert log_of(launcher.head) == log_of(launcher.worker) == ["set up one"]
    assert not (launcher.worker.home / "code" / "a.pyc").exists()

    # No secret can be read by others; the worker has the head's.
    (token,) = launcher.head.home.glob(".kernel/cluster/*/token")
    (other,) = launcher.worker.home.glob(".kernel/cluster/*/token")
    assert token.read_text() == other.read_text() and oct(other.stat().st_mode)[-3:] == "600"

    # Nothing has changed: nothing is done, and nodes go on.
    def nodes():
        found = json.loads(launcher.real("exec", "kernel status --json").stdout)["nodes"]
        return {row["NodeID"]: row["Resources"].get("CPU", 0) for row in found if row["Alive"]}

    first = nodes()
    assert sorted(first.values()) == [0, 2]
    assert "0 steps" in launcher("up", "--no-restart")
    assert nodes() == first

    # A program runs, joins this cluster, and has its arguments; its exit code is the command's.
    (tmp_path / "program.py").write_text(PROGRAM)
    done = launcher.real("submit", str(tmp_path / "program.py"), "21", "--", "--start")
    assert (done.returncode, done.stdout) == (0, "answer 42 ['--start']\n"), done.stderr
    assert launcher.real("exec", "exit 7").returncode == 7

    # Files there and back, where the shell there expands ~.
    launcher("rsync-up", str(tmp_path / "program.py"), "~/there/")
    assert "1 file copied" in launcher("rsync-down", "~/there/program.py", str(tmp_path / "back.py"))
    assert (tmp_path / "back.py").read_text() == PROGRAM
    assert launcher("get-head-ip") == launcher("get-worker-ips") == "127.0.0.1\n"
    assert "NODES  2 alive" in launcher("monitor", "--times", "1")
    launcher("cluster-dump", "-o", str(tmp_path / "dump"))
    assert {path.name for path in (tmp_path / "dump").iterdir()} == {"head", f"127.0.0.1_{launcher.worker.port}"}

    # A node is killed, its machine is not; the next `up` brings it back. Changed files set up anew, without a restart.
    assert "its node was killed" in launcher("kill-random-node", "-y")
    assert launcher.worker.process.poll() is None
    (launcher.file.parent / "code" / "version").write_text("two")
    launcher("up", "--no-restart")
    assert log_of(launcher.head) == log_of(launcher.worker) == ["set up one", "set up two"]
    again = nodes()
    assert sorted(again.values()) == [0, 2] and len(set(again) & set(first)) == 1

    # Without workers: the worker's node ends, and nothing of the cluster stays there.
    launcher("up", "--no-restart", "--max-workers", "0")
    assert len(nodes()) == 1 and not list(launcher.worker.home.glob(".kernel/cluster/*"))

    # Down: no node, no file, and both machines are still there.
    assert "nodes on 1 machines ended" in launcher("down", "-y")
    assert not list(launcher.head.home.glob(".kernel/cluster/*"))
    assert launcher.head.process.poll() is None and launcher.worker.process.poll() is None
    assert "no head runs" not in launcher("down", "-y")


def plan_for(launcher, machines, text):
    launcher.write(text, machines)
    plan = read_plan(launcher.file)
    launcher.write(YAML, machines)
    return plan


def test_up_goes_on_where_it_was_cut(launcher, machines, tmp_path):
    """Each command fails once; each `up` does what is left, and no command runs twice."""
    commands = "\n".join(
        f"  - echo {name} >> ~/cut.log; test -e ~/{name} || (touch ~/{name}; echo no {name} >&2; exit 9)"
        for name in ("first", "second")
    )
    text = YAML.replace("cluster_name: mine", "cluster_name: cut").replace('"{worker}"', "")
    plan = plan_for(launcher, machines, text.replace("  - echo set up $(cat ~/code/version) >> ~/log", commands))
    lines: list[str] = []
    for name in ("first", "second"):
        with pytest.raises(MachineError) as caught:
            bring_up(plan, tmp_path / "state", Wanted(), lines.append)
        assert str(caught.value).startswith(f"{launcher.head.entry}: the step `echo {name} >> ~/cut.log;")
        assert str(caught.value).endswith(f"ended with exit code 9: no {name}")
    machine = link(plan, HEAD, plan.head_host, tmp_path / "state", lines.append)
    machine.open()
    try:
        assert sorted(machine.done) == ["files-0", "setup-0"]
    finally:
        machine.close()
    assert (launcher.head.home / "cut.log").read_text().split() == ["first", "first", "second"]


def test_a_host_key_is_pinned_and_another_is_refused(launcher, machines, tmp_path):
    state = tmp_path / "state"
    plan = read_plan(launcher.file)
    other = machines.start("changing")
    machine = link(plan, HEAD, other.entry, state, lambda line: None)
    machine.open()
    machine.close()
    assert machine.connection.run("echo anew").output == "anew\n"
    assert f"[127.0.0.1]:{other.port}" in (state / "known_hosts").read_text()
    other.process.terminate()
    other.process.wait()
    for file in (machines.directory / "changing").glob("host_key*"):
        file.unlink()
    machines.start("changing", other.port)
    with pytest.raises(
        MachineError, match="its host key is not the one that was pinned when it was first logged in to"
    ):
        machine.open()
    with pytest.raises(MachineError, match="REMOTE HOST IDENTIFICATION HAS CHANGED|Host key verification failed"):
        machine.connection.run("echo is not reached")


def test_machines_that_cannot_be_logged_in_to(launcher, machines, tmp_path):
    plan = read_plan(launcher.file)
    with pytest.raises(MachineError, match=r"^127.0.0.1:1 can't be logged in to: .*Connection refused"):
        link(plan, HEAD, "127.0.0.1:1", tmp_path, lambda line: None).open(0.0)
    strange = tmp_path / "strange"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(strange)], check=True)
    plan = plan_for(launcher, machines, YAML.replace("{key}", str(strange)))
    with pytest.raises(MachineError, match=r"Permission denied .*; check the user and the private key"):
        link(plan, HEAD, launcher.head.entry, tmp_path, lambda line: None).open()


def test_a_machine_without_kernel_says_what_to_do(launcher, machines, tmp_path):
    bare = machines.start("bare")
    (bare.home / ".bash_profile").write_text("export PATH=/usr/bin:/bin\n")
    text = YAML.replace("cluster_name: mine", "cluster_name: bare").replace('"{head}"', f'"{bare.entry}"')
    with pytest.raises(MachineError) as caught:
        bring_up(plan_for(launcher, machines, text), tmp_path, Wanted(setup=False), lambda line: None)
    assert "kernel: command not found; let the cluster file install kernel, by a command under" in str(caught.value)


def test_doctor_tells_good_from_bad(launcher, machines):
    text = launcher("doctor", code=0)
    assert text.count("ok  ") == 12 and "BAD" not in text
    plan_file = launcher.file.read_text()
    launcher.file.write_text(plan_file.replace(launcher.worker.entry, "127.0.0.1:1"))
    try:
        assert "BAD  127.0.0.1:1 " in launcher("doctor", code=1)
    finally:
        launcher.file.write_text(plan_file)


DOCKER = """#!/bin/sh
# Does what docker does with one container, whose programs run on the machine.
echo "$@" >> ~/docker.log
case "$1" in
  run) echo "true $(echo "$@" | sed 's/.*kernel.cluster=\\([0-9a-f]*\\).*/\\1/')" > ~/container;;
  inspect) cat ~/container 2>/dev/null || exit 1;;
  rm) rm -f ~/container;;
  exec) shift 3; IN_CONTAINER=yes exec "$@";;
esac
"""


def test_commands_run_in_the_container(launcher, machines, tmp_path):
    programs = machines.directory / "head" / "bin"
    (programs / "docker").write_text(DOCKER)
    (programs / "docker").chmod(0o755)
    text = YAML.replace("cluster_name: mine", "cluster_name: boxed").replace('"{worker}"', "")
    text = text.replace("echo set up $(cat ~/code/version) >> ~/log", 'echo "$IN_CONTAINER" >> ~/boxed.log')
    text += "docker: {{image: python, container_name: box, run_options: [-e A=1]}}\n"
    text += "initialization_commands: ['echo \"out$IN_CONTAINER\" >> ~/boxed.log']\n"
    launcher.write(text, machines)
    try:
        launcher("up")
        assert (launcher.head.home / "boxed.log").read_text().split() == ["out", "yes"]
        assert launcher.real("exec", 'echo "$IN_CONTAINER"').stdout == "yes\n"
        assert launcher.real("exec", 'echo "$IN_CONTAINER"', "--run-env", "host").stdout == "\n"
        launcher("up", "--no-restart")
        (launcher.head.home / "container").unlink()
        launcher("up", "--no-restart")
        assert (launcher.head.home / "boxed.log").read_text().split() == ["out", "yes", "yes"]
        launcher("down", "-y")
    finally:
        launcher.write(YAML, machines)
    lines = (launcher.head.home / "docker.log").read_text().splitlines()
    runs = [line for line in lines if line.startswith("run")]
    assert len(runs) == 2 and "--network host --ipc host" in runs[0] and "-e A=1" in runs[0]
    assert lines[-1].startswith("rm --force box-boxed-") and not (launcher.head.home / "container").exists()


def test_copying_fails_with_what_the_machine_says(launcher, machines, tmp_path):
    plan = read_plan(launcher.file)
    machine = link(plan, HEAD, launcher.head.entry, tmp_path, lambda line: None)
    machine.open()
    try:
        from kernel_launcher.files.copying import copy_mount

        (launcher.head.home / "file").touch()
        with pytest.raises(MachineError, match=r"copying ended with exit code 1: mkdir: cannot create directory"):
            copy_mount(machine, str(tmp_path), "~/file/below", Patterns())
    finally:
        machine.close()
    assert shutil.which("ssh")
