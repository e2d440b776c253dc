"""The steps of a machine: which there are, what they depend on, and which are left."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import replace

import pytest
from kernel_launcher.cli.plan_shown import shown_plan
from kernel_launcher.plan import HEAD, WORKER, ClusterPlan, CommandPlan, ContainerPlan, FilePlan, KindPlan
from kernel_launcher.steps.autoscaler_file import autoscaler_values, provider_options, toml_text
from kernel_launcher.steps.container import begin_container
from kernel_launcher.steps.machine import ClusterMachine, machine_steps, session_directory, start_command
from kernel_launcher.steps.shell_words import in_login_shell, remote_path
from kernel_launcher.steps.step import OUTSIDE, START, MachineStep, Wanted, pending

from kernel_spec.providers import KindDetails

PLAN = ClusterPlan(
    "mine", "local", head_host="a", worker_hosts=("b", "c"), minimum_workers=1, maximum_workers=1, start_workers=1,
    kinds={"head": KindPlan("head"), "worker": KindPlan("worker")},
    files=(FilePlan("~/code", "/code"),),
    commands=CommandPlan(("echo outside",), ("echo all",), ("echo head",), ("echo worker",)),
)  # fmt: skip
HERE = ClusterMachine(HEAD, "a", "/home/me")
THERE = ClusterMachine(WORKER, "b", "/home/me", "a:6380")


def steps(plan=PLAN, machine=HERE, files=None):
    return machine_steps(plan, machine, files or {"/code": "1"})


def keys(plan=PLAN, machine=HERE, files=None):
    return {step.id: step.key for step in steps(plan, machine, files)}


def changed(one, other):
    return [name for name in one if one[name] != other[name]]


def test_the_steps_of_a_head_and_of_a_worker():
    assert [step.id for step in steps()] == ["outside-0", "files-0", "setup-0", "setup-1", "start-0", "start-1"]
    assert [step.command for step in steps()[2:4]] == ["echo all", "echo head"]
    assert [step.command for step in steps(machine=THERE)[2:4]] == ["echo all", "echo worker"]
    assert [step.place for step in steps()[:2]] == [OUTSIDE, "inside"]


def test_what_comes_before_is_part_of_a_steps_key():
    """So new contents of a file let the commands behind it run again, as the documents' branch of git needs."""
    assert changed(keys(), keys(files={"/code": "2"})) == ["files-0", "setup-0", "setup-1"]
    later = replace(PLAN, commands=replace(PLAN.commands, head_setup=("echo other",)))
    assert changed(keys(), keys(later)) == ["setup-1"]
    first = replace(PLAN, commands=replace(PLAN.commands, outside=("echo other",)))
    assert changed(keys(), keys(first)) == ["outside-0", "files-0", "setup-0", "setup-1"]


ALL = ["a", "b", "s"]
A, B, S = MachineStep("a", "", "1"), MachineStep("b", "", "1", repeated=True), MachineStep("s", "", "1", purpose=START)


@pytest.mark.parametrize(
    "done, running, wanted, left",
    [
        ({}, False, Wanted(), "abs"),
        ({"a": "1", "b": "1", "s": "1"}, True, Wanted(), "bs"),
        ({"a": "0"}, True, Wanted(restart=False), "ab"),
        ({"a": "1"}, True, Wanted(restart=False), "b"),
        ({"a": "1"}, False, Wanted(restart=False), "bs"),
        ({}, True, Wanted(setup=False), "s"),
        ({}, True, Wanted(restart=False, setup=False), ""),
    ],
)
def test_what_is_left_to_do(done, running, wanted, left):
    assert "".join(step.id for step in pending([A, B, S], done, running, wanted)) == left


def test_a_head_is_reached_at_its_address_and_no_secret_is_an_argument():
    assert start_command(PLAN, HERE) == (
        f"kernel start --token-file /home/me/.kernel/cluster/{PLAN.key}/token --node-ip-address a --head"
    )
    assert start_command(PLAN, THERE).endswith("/token --node-ip-address b --address a:6380")


def test_resources_of_a_heads_kind_are_its_nodes():
    kind = KindPlan("head", resources={"CPU": 2, "GPU": 1, "memory": 1e9, "disk": 3}, labels={"tier": "big"})
    words = shlex.split(start_command(replace(PLAN, kinds={"head": kind}), HERE))
    assert words[7:] == [
        "--num-cpus", "2", "--num-gpus", "1", "--memory", "1000000000", "--resources", '{"disk": 3}',
        "--labels", "tier=big",
    ]  # fmt: skip


def test_start_commands_of_the_file_take_the_place_of_kernels():
    plan = replace(PLAN, commands=CommandPlan(head_start=("ulimit -n 9; $KERNEL_START --num-cpus 3",)))
    (step,) = [step for step in steps(plan) if step.purpose == START]
    assert step.command == f"ulimit -n 9; {start_command(plan, HERE)} --num-cpus 3"
    assert step.title == "ulimit -n 9; kernel start --num-cpus 3"


def test_a_cluster_that_scales_has_an_autoscaler_with_its_limits():
    small = KindPlan("small", {"InstanceType": "m5"}, {"CPU": 2.0}, {"a": "b"}, maximum=3)
    plan = ClusterPlan(
        "mine", "aws", {"region": "r"}, head_kind="big",
        kinds={"big": KindPlan("big", {"InstanceType": "m6"}), "small": small},
        minimum_workers=1, maximum_workers=4, idle_seconds=60.0, commands=CommandPlan(setup=("echo",)),
    )  # fmt: skip
    values = autoscaler_values(plan)
    assert values["settings"] == {"idle_seconds": 60.0, "maximum_nodes": 4}
    assert values["kinds"] == {"small": {"minimum": 1, "maximum": 3}}
    kinds = {"small": {"InstanceType": "m5", "resources": {"CPU": 2.0}, "labels": {"a": "b"}}}
    assert values["provider_options"] == {
        "region": "r", "cluster_name": plan.key, "role": "worker", "kinds": kinds, "setup_commands": ["echo"],
    }  # fmt: skip
    assert provider_options(plan, HEAD)["kinds"] == {"head": {"InstanceType": "m6"}}
    (step,) = [step for step in steps(plan) if step.id == "autoscaler"]
    assert toml_text(values) in " ".join(shlex.split(step.command))
    assert start_command(plan, HERE).startswith("KERNEL_OPTION_AUTOSCALER_CONFIG=/home/me/")
    assert start_command(plan, HERE).endswith("--head --head-service autoscaler")


def test_values_as_toml_are_read_back():
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    values = {"a": {"b c": [1, 2.5, True, 'x"y\n'], "none": None}, "d": "é"}
    assert tomllib.loads(toml_text(values)) == {"a": {"b c": [1, 2.5, True, 'x"y\n']}, "d": "é"}


def test_machines_of_one_user_have_sessions_of_their_own():
    assert session_directory(PLAN, "/home/me") != session_directory(PLAN, "/home/other")
    assert session_directory(PLAN, "/home/me") != session_directory(replace(PLAN, name="x"), "/home/me")
    assert len(session_directory(PLAN, "/home/me")) <= 24


@pytest.mark.parametrize(
    "path, word",
    [("~", '"$HOME"'), ("~/a b", "\"$HOME\"/'a b'"), ("~me/x", "~me/x"), ("/a b", "'/a b'"), ("~$(x)", "'~$(x)'")],
)
def test_the_shell_there_expands_the_tilde(path, word):
    assert remote_path(path) == word


def test_a_login_shell_has_what_bashrc_sets_and_says_only_what_the_command_says(tmp_path):
    (tmp_path / ".bash_profile").write_text(". ~/.bashrc\n")
    (tmp_path / ".bashrc").write_text('case $- in *i*) ;; *) return;; esac\nexport SAID="from bashrc"\n')
    command = in_login_shell('echo "$SAID $GIVEN"; echo wrong >&2; exit 3', {"GIVEN": "a b"})
    done = subprocess.run(
        ["sh", "-c", command], env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "from bashrc a b\n", "wrong\n")


def test_a_container_is_begun_anew_for_another_image_only():
    plan = replace(PLAN, container=ContainerPlan("podman", "k", "img", "img", ("-e A=1",), ("-e B=1",), True))
    command = begin_container(plan, HEAD, "/d")
    assert f"podman run --detach --name k-{plan.key}" in command and "--volume /d:/d -e A=1" in command
    assert "podman pull img" in command
    ids = [step.id for step in steps(plan)]
    assert ids[:2] == ["outside-0", "container"] and steps(plan)[1].repeated


def test_a_plan_as_it_is_shown():
    prices = {"head": KindDetails(0.5), "worker": KindDetails(0.25, spot=True)}
    text = shown_plan(replace(PLAN, remarks=("x has no effect",)), {}, prices)
    assert "workers  1 of 2 machines" in text and "worker   b\n" in text
    assert "  files-0      copy /code to ~/code" in text
    assert "costs    a worker of kind worker: 0.25 an hour (spot: it may be taken away)" in text
    assert "costs    at most 0.75 an hour, with 1 workers" in text
    assert text.endswith("note     x has no effect")
