"""The steps of one machine, from a plan."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from kernel_launcher.plan import HEAD, ClusterPlan
from kernel_launcher.steps.autoscaler_file import autoscaler_values, toml_text
from kernel_launcher.steps.container import begin_container
from kernel_launcher.steps.provider_words import has_provider
from kernel_launcher.steps.step import OUTSIDE, START, MachineStep, digest
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ClusterMachine:
    """A machine, once it was logged in to: what it is, its `address` as others reach it, and where its files are.

    `home` is the home directory there. `head` is where the head listens, for a worker. `provider_id` is what a node
    provider calls it, "" for one that was there already.
    """

    role: str
    address: str
    home: str
    head: str = ""
    provider_id: str = ""


def cluster_directory(plan: ClusterPlan, home: str) -> str:
    """Return where a machine keeps what belongs to a cluster: its steps, its token, its configuration."""
    return f"{home}/.kernel/cluster/{plan.key}"


def session_directory(plan: ClusterPlan, machine_home: str) -> str:
    """Return where a machine's sessions of a cluster lie: of no other cluster's, and short, as sockets are there."""
    return f"/tmp/kernel-{digest(plan.key, machine_home)[:12]}"


def variables(plan: ClusterPlan, machine: ClusterMachine) -> dict[str, str]:
    """Return the variables that commands of a machine have."""
    found = {"KERNEL_TMPDIR": session_directory(plan, machine.home)}
    head = machine.address if machine.role == HEAD else machine.head.rpartition(":")[0]
    return {**found, "RAY_HEAD_IP": head, "KERNEL_HEAD_HOST": head} if head else found


def program_variables(plan: ClusterPlan, machine: ClusterMachine) -> dict[str, str]:
    """Return the variables that programs on the head have: `init` joins this cluster, and no other."""
    return {**variables(plan, machine), "KERNEL_ADDRESS": "auto", "RAY_ADDRESS": "auto"}


def machine_steps(plan: ClusterPlan, machine: ClusterMachine, files: Mapping[str, str]) -> list[MachineStep]:
    """Return all steps of a machine, in order; `files` has the digest of the contents of each local path."""
    head = machine.role == HEAD
    commands = plan.commands
    steps: list[MachineStep] = []
    chain = ""

    def add(id: str, title: str, command: str = "", place: str = "inside", **more: object) -> None:
        nonlocal chain
        chain = digest(chain, command, place, more.pop("contents", ""))
        steps.append(MachineStep(id, title, chain, command, place, **more))  # type: ignore[arg-type]

    for number, command in enumerate(commands.outside):
        add(f"outside-{number}", command, command, OUTSIDE)
    image = _image(plan, head)
    if plan.container is not None and image:
        command = begin_container(plan, machine.role, cluster_directory(plan, machine.home))
        add("container", f"run {image} in {plan.container.program}", command, OUTSIDE, repeated=True)
    for number, each in enumerate(plan.files):
        contents = [each.remote, files.get(each.local, "")]
        add(f"files-{number}", f"copy {each.local} to {each.remote}", files=each, contents=contents)
    own = commands.head_setup if head else commands.worker_setup
    for number, command in enumerate([*commands.setup, *own]):
        add(f"setup-{number}", command, command)
    return [*steps, *_start_steps(plan, machine)]


def _start_steps(plan: ClusterPlan, machine: ClusterMachine) -> list[MachineStep]:
    head = machine.role == HEAD
    found = []
    directory = cluster_directory(plan, machine.home)
    if head and plan.scales:
        text = toml_text(autoscaler_values(plan))
        file = shlex.quote(f"{directory}/autoscaler.toml")
        write = f"umask 077 && printf %s {shlex.quote(text)} > {file}.new && mv {file}.new {file}"
        found.append(MachineStep("autoscaler", "write the autoscaler's configuration", digest(text), write))
        check = has_provider(plan.provider)
        title = f"look for the autoscaler and the provider {plan.provider}"
        found.append(MachineStep("provider", title, digest(check), check, purpose=START))
    given = plan.commands.head_start if head else plan.commands.worker_start
    given = given or ("$KERNEL_STOP", "$KERNEL_START")
    start, stop = start_command(plan, machine), stop_command()
    both = {"$KERNEL_START": start, "$KERNEL_STOP": stop}
    for number, command in enumerate(given):
        text = command
        for name, meaning in both.items():
            text = text.replace(name, meaning)
        title = command.replace("$KERNEL_START", "kernel start").replace("$KERNEL_STOP", "kernel stop")
        found.append(MachineStep(f"start-{number}", title, digest(text), text, purpose=START))
    return found


def start_command(plan: ClusterPlan, machine: ClusterMachine) -> str:
    """Return the command that starts a machine's node. The token is in a file, made by the head or sent before."""
    directory = cluster_directory(plan, machine.home)
    words = ["kernel", "start", "--token-file", f"{directory}/token", "--node-ip-address", machine.address]
    if machine.role != HEAD:
        words += ["--address", machine.head]
        if machine.provider_id:
            words += ["--provider-id", machine.provider_id]
        return shlex.join(words)
    words.append("--head")
    kind = plan.kinds.get(plan.head_kind)
    if kind is not None:
        words += _resources(kind.resources)
        for name, value in kind.labels.items():
            words += ["--labels", f"{name}={value}"]
    if not plan.scales:
        return shlex.join(words)
    configuration = shlex.quote(f"{directory}/autoscaler.toml")
    return f"KERNEL_OPTION_AUTOSCALER_CONFIG={configuration} {shlex.join([*words, '--head-service', 'autoscaler'])}"


def stop_command() -> str:
    """Return the command that ends a machine's node of this cluster: what is in KERNEL_TMPDIR, and nothing else."""
    return "kernel stop"


def _resources(resources: Mapping[str, float]) -> list[str]:
    rest = dict(resources)
    words = []
    for name, option in (("CPU", "--num-cpus"), ("GPU", "--num-gpus"), ("memory", "--memory")):
        if name in rest:
            words += [option, f"{rest.pop(name):g}" if option != "--memory" else str(int(rest.pop("memory")))]
    rest.pop("object_store_memory", None)
    return [*words, "--resources", json.dumps(rest)] if rest else words


def _image(plan: ClusterPlan, head: bool) -> str:
    if plan.container is None:
        return ""
    return plan.container.head_image if head else plan.container.worker_image
