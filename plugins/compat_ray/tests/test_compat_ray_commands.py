"""Ray's command line in kernel's words, and the commands that run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from kernel_compat_ray.command_line import translate_command
from kernel_compat_ray.errors import NotSupportedError
from kernel_compat_ray.ray_command import ray_cli
from kernel_compat_ray.run_command import ray_run

from kernel.testing import Cluster
from kernel.testing.command_line import CommandLine
from kernel.testing.roots import temporary_root

ORDINARY = """
import kernel

@kernel.remote
def inside():
    import ray
    return ray.get.__module__

print(kernel.get(inside.remote()))
"""
"""A program that does not know of Ray, whose workers do, as the node was started in Ray's words."""

PROGRAM = """
import sys
import ray

@ray.remote
def double(number):
    from ray.exceptions import RayError
    return 2 * number

print(sys.argv[1:], ray.get(double.remote(21)), __name__)
"""


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("start --head --num-cpus=4", "start --head --num-cpus 4"),
        ("start --head --num_cpus 4 --block", "start --head --num-cpus 4 --block"),
        ("start --redis-address a:1 --redis-password=x", "start --address a:1"),
        (
            "start --head --redis-port=6379 --plasma-directory /x",
            "start --head --port 6379 --object-store-directory /x",
        ),
        ("start --head --labels-file f.yaml", "start --head --labels-file f.yaml"),
        ('start --head --labels={"a":"b"}', "start --head --labels a=b"),
        ("start --head --labels a=b,c=d", "start --head --labels a=b,c=d"),
        ("start --head --lru-evict --include-dashboard=true --webui-host localhost", "start --head"),
        ("stop -f", "stop --force"),
        ("stop -v", "stop"),
        ("stat --address a:1", "status --address a:1"),
        ("memory", "memory"),
        ("list actors", "list actors"),
        ("list tasks -f state!=FAILED --limit 3 --detail", "list tasks -f state!=FAILED --limit 3 --detail"),
        ("list nodes --format=yaml --timeout 5 --filter state=ALIVE", "list nodes --json --filter state=ALIVE"),
        ("list objects --format table", "list objects"),
        ("get actors ab --address a:1", "get actors ab --address a:1"),
        ("summary tasks", "summary tasks"),
        ("submit cluster.yaml x.py --start", "submit cluster.yaml x.py --start"),
        ("submit cluster.yaml x.py --log-color auto -- -v", "submit cluster.yaml x.py -- -v"),
        ("submit x.py --start -- --smoke", "ray-run x.py --smoke"),
        (
            "up cluster.yaml -y --no-config-cache -n other --max-workers=3",
            "up cluster.yaml -y -n other --max-workers=3",
        ),
        ("down cluster.yaml --yes --log-style=pretty -v", "down cluster.yaml --yes"),
        ("rsync_up cluster.yaml a b", "rsync-up cluster.yaml a b"),
        ("rsync-down cluster.yaml ~/a b", "rsync-down cluster.yaml ~/a b"),
        ("get_head_ip cluster.yaml", "get-head-ip cluster.yaml"),
        ("get-worker-ips cluster.yaml", "get-worker-ips cluster.yaml"),
        ("exec cluster.yaml ls --port-forward 6006 --tmux", "exec cluster.yaml ls --port-forward 6006 --tmux"),
        ("attach cluster.yaml --start -N", "attach cluster.yaml --start -N"),
        ("monitor cluster.yaml --lines 5", "monitor cluster.yaml"),
        ("kill-random-node cluster.yaml --hard", "kill-random-node cluster.yaml --hard"),
    ],
)
def test_commands_become_those_of_kernel(command, wanted):
    name, *rest = command.split()
    assert translate_command(name, rest).arguments == wanted.split()


def test_what_is_left_out_is_said():
    remarks = translate_command("start", ["--head", "--redis-password", "x"]).remarks
    assert remarks == [
        "--redis-password has no effect: programs and nodes are let in by a token: `kernel token`, --token-file"
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("dashboard x.yaml", "`ray dashboard` is not supported: there is none"),
        ("start --include-java", "`ray start --include-java` is not supported: kernel runs Python only"),
        ("start --head --nonsense", "no option '--nonsense' that kernel knows; see: kernel start --help"),
        ("start --num-cpus", "needs a value"),
        ("dance", "kernel has no counterpart of the command `ray dance`; it has those of attach, "),
        ("submit --start", "`ray submit` needs a cluster file and a script"),
    ],
)
def test_what_can_not_be_done_says_what_to_do(command, message):
    name, *rest = command.split()
    with pytest.raises(NotSupportedError, match=message):
        translate_command(name, rest)


def test_a_cluster_is_started_used_and_stopped_by_the_words_of_ray(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with temporary_root() as root:
        line = CommandLine(root)
        started = line.run("ray-cli", "start", "--head", "--num_cpus=1", "--port", "0", "--redis-password=x")
        try:
            assert started.returncode == 0 and "--redis-password has no effect" in started.stderr
            status = json.loads(line.run("ray-cli", "status", "--json").stdout)
            assert status["total"]["CPU"] == 1
            done = line.run("ray-run", str(program), "--flag", "x", RAY_ADDRESS="auto")
            assert done.stdout == "['--flag', 'x'] 42 __main__\n", done.stderr
            ordinary = tmp_path / "ordinary.py"
            ordinary.write_text(ORDINARY)
            environment = {**line.environment, "KERNEL_ADDRESS": "auto"}
            done = subprocess.run(
                [sys.executable, str(ordinary)], env=environment, capture_output=True, text=True, timeout=200
            )
            assert done.stdout == "kernel_compat_ray.calls\n", done.stderr
        finally:
            stopped = line.run("ray-cli", "stop", "-v")
        assert stopped.returncode == 0 and "Ended" in stopped.stdout


def test_a_cluster_is_joined_from_outside(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with Cluster(num_cpus=1, death_seconds=60.0) as cluster:
        line = CommandLine(cluster.root)
        address = cluster.address.replace("kernel://", "ray://")
        token = Path(cluster.token_file).read_text()
        done = line.run("ray-run", str(program), RAY_ADDRESS=address, KERNEL_TOKEN=token)
        assert done.stdout == "[] 42 __main__\n", done.stderr


def test_the_module_runs_programs_too(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text("import ray, sys; print(ray.__name__, sys.argv[1:], 'kernel' in ray.get.__module__)")
    command = [sys.executable, "-m", "kernel_compat_ray", str(program), "-v", "--", "x"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert done.stdout == "ray ['-v', '--', 'x'] True\n", done.stderr


def test_workers_are_not_counted():
    found = translate_command("start", ["--head", "--num-workers=3", "--num-cpus", "2"])
    assert found.arguments == ["start", "--head", "--num-cpus", "2"]
    assert found.remarks == ["--num-workers has no effect: workers are started as they are needed"]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (ray_run, (), "say which program: kernel ray-run SCRIPT"),
        (ray_run, ("nowhere.py",), "there is no program 'nowhere.py'"),
        (ray_cli, (), "say a command: attach, cluster-dump, debug, down, drain-node, exec"),
    ],
)
def test_a_command_that_is_not_complete_says_what_it_lacks(command, arguments, message):
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 2 and message in done.output
