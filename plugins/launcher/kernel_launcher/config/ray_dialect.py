"""Read a cluster file of Ray, of 0.8.5 or of today, into a `ClusterPlan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_launcher.config.document import ClusterDocument
from kernel_launcher.config.ray_keys import (
    AUTH,
    DOCKER,
    DOCKER_WITHOUT_MEANING,
    LOCAL,
    LOCAL_WITHOUT_MEANING,
    NODE_TYPE,
    NODE_TYPE_WITHOUT_MEANING,
    PROVIDERS,
    TOP,
    TOP_WITHOUT_MEANING,
)
from kernel_launcher.config.rewriting import rewrite
from kernel_launcher.config.values import FileSection
from kernel_launcher.plan import (
    HEAD,
    WORKER,
    ClusterPlan,
    CommandPlan,
    ContainerPlan,
    FilePlan,
    KindPlan,
    SshAccess,
)

_MAXIMUM_TODAY = 2
"""`max_workers` of a file of today that says none; 0.8.5 has the number of its minimum."""


def read_ray(document: ClusterDocument) -> ClusterPlan:
    """Return what a cluster file of Ray says. Raises OptionError, with line and column, for what is wrong in it."""
    top = FileSection(document)
    top.check_keys([*TOP, *TOP_WITHOUT_MEANING], "a cluster file")
    _check_era(top)
    remarks = _without_meaning(top, TOP_WITHOUT_MEANING, "")
    provider = top.section("provider")
    kind = provider.text("type")
    if not kind:
        raise top.wrong(("provider",), "needs a type, such as {type: local, head_ip: HOST, worker_ips: [HOST, ...]}")
    if not top.text("cluster_name"):
        raise top.wrong((), "needs a cluster_name: what the cluster is called")
    name = PROVIDERS.get(kind, kind)
    options = {key: value for key, value in provider.values.items() if key != "type" and value is not None}
    head = ""
    workers: tuple[str, ...] = ()
    if name == "local" and "coordinator_address" in provider:
        name = "coordinator"
    elif name == "local":
        head, workers = _hosts(provider, remarks)
        options = {}
    if name == "aws" and "ssh_from" not in options:
        remarks.append("provider.ssh_from is not said: the head's port 22 is opened to no network by the provider aws")
    kinds, head_kind = _kinds(top, name, remarks)
    minimum, maximum, start = _numbers(top, kinds, head_kind, workers)
    return ClusterPlan(
        top.text("cluster_name"),
        name,
        options,
        head,
        workers,
        head_kind,
        kinds,
        minimum,
        maximum,
        start,
        60.0 * top.number("idle_timeout_minutes", 5.0),
        _ssh(top.section("auth"), remarks),
        _container(top.section("docker"), remarks),
        _files(top),
        top.texts("rsync_exclude"),
        top.texts("rsync_filter"),
        _commands(top, remarks),
        tuple(remarks),
    )


def _check_era(top: FileSection) -> None:
    old = [key for key in ("head_node", "worker_nodes", "initial_workers") if key in top]
    today = [key for key in ("available_node_types", "head_node_type") if key in top]
    if old and today and any(top.values[key] for key in old):
        raise top.wrong(
            (old[0],),
            f"is of Ray 0.8.5, and {today[0]} of later files: say kinds of machines in available_node_types alone",
        )
    if len(today) == 1:
        missing = ({"available_node_types", "head_node_type"} - set(today)).pop()
        raise top.wrong((today[0],), f"needs {missing} beside it")


def _without_meaning(section: FileSection, reasons: Mapping[str, str], below: str) -> list[str]:
    return [f"{below}{key} has no effect: {reason}" for key, reason in reasons.items() if key in section.values]


def _hosts(provider: FileSection, remarks: list[str]) -> tuple[str, tuple[str, ...]]:
    provider.check_keys([*LOCAL, *LOCAL_WITHOUT_MEANING], "a provider of type local")
    remarks += _without_meaning(provider, LOCAL_WITHOUT_MEANING, "provider.")
    head, workers = provider.text("head_ip"), provider.texts("worker_ips")
    if not head:
        raise provider.wrong((), "needs head_ip, the machine that is to be the head, or coordinator_address")
    for place, host in enumerate(workers):
        if host == head:
            raise provider.wrong(("worker_ips", place), f"is the head ({head}): a machine is one of them")
        if host in workers[:place]:
            raise provider.wrong(("worker_ips", place), f"names {host} a second time")
    return head, workers


def _kinds(top: FileSection, provider: str, remarks: list[str]) -> tuple[dict[str, KindPlan], str]:
    if "available_node_types" not in top:
        head, workers = top.mapping("head_node"), top.mapping("worker_nodes")
        return {HEAD: KindPlan(HEAD, head, maximum=0), WORKER: KindPlan(WORKER, workers or head)}, HEAD
    found = {}
    for name, section in top.section("available_node_types").sections().items():
        section.check_keys([*NODE_TYPE, *NODE_TYPE_WITHOUT_MEANING], f"the node type {name}")
        remarks += _without_meaning(section, NODE_TYPE_WITHOUT_MEANING, f"available_node_types.{name}.")
        setup = section.texts("worker_setup_commands") if "worker_setup_commands" in section else None
        found[name] = KindPlan(
            name,
            section.mapping("node_config"),
            section.amounts("resources"),
            section.words("labels"),
            section.count("min_workers", 0) or 0,
            section.count("max_workers"),
            setup,
        )
    head_kind = top.text("head_node_type")
    if head_kind not in found:
        raise top.wrong(
            ("head_node_type",), f"must be one of available_node_types, {', '.join(found)}, not {head_kind}"
        )
    return found, head_kind


def _numbers(
    top: FileSection, kinds: Mapping[str, KindPlan], head_kind: str, hosts: tuple[str, ...]
) -> tuple[int, int, int]:
    """Return the least, the most, and the first number of workers. Where machines are given, all are workers at first.

    The most takes precedence over the least, as Ray has it.
    """
    today = "available_node_types" in top
    least = top.count("min_workers")
    most = top.count("max_workers")
    if hosts and least is None and "initial_workers" not in top:
        least = len(hosts) if most is None else min(most, len(hosts))
    least = max(least or 0, sum(kind.minimum for kind in kinds.values()))
    if most is None:
        most = max(least, _MAXIMUM_TODAY) if today and not hosts else max(least, top.count("initial_workers") or 0)
    if hosts:
        most = min(most, len(hosts))
    least = min(least, most)
    return least, most, min(most, max(least, top.count("initial_workers") or 0))


def _ssh(auth: FileSection, remarks: list[str]) -> SshAccess:
    auth.check_keys(AUTH, "auth")
    if "ssh_public_key" in auth and "ssh_private_key" not in auth:
        remarks.append("auth.ssh_public_key has no effect without ssh_private_key")
    key = auth.local_file(auth.text("ssh_private_key")) if "ssh_private_key" in auth else ""
    return SshAccess(auth.text("ssh_user"), key, auth.count("ssh_port", 22) or 22, auth.text("ssh_proxy_command"))


def _container(docker: FileSection, remarks: list[str]) -> ContainerPlan | None:
    docker.check_keys([*DOCKER, *DOCKER_WITHOUT_MEANING], "docker")
    remarks += _without_meaning(docker, DOCKER_WITHOUT_MEANING, "docker.")
    image = docker.text("image")
    head, worker = docker.text("head_image") or image, docker.text("worker_image") or image
    if not head and not worker:
        return None
    shared = docker.texts("run_options")
    pull = docker.flag("pull_before_run", docker.flag("pull", True))
    return ContainerPlan(
        "podman" if docker.flag("use_podman") else "docker",
        docker.text("container_name") or "ray_container",
        head,
        worker,
        shared + docker.texts("head_run_options"),
        shared + docker.texts("worker_run_options"),
        pull,
    )


def _files(top: FileSection) -> tuple[FilePlan, ...]:
    mounts = top.section("file_mounts")
    found = [FilePlan(remote, mounts.local_file(mounts.text(remote))) for remote in mounts.values]
    return (*found, *(FilePlan(path, top.local_file(path)) for path in top.texts("cluster_synced_files")))


def _commands(top: FileSection, remarks: list[str]) -> CommandPlan:
    dropped: dict[str, None] = {}

    def rewritten(key: str) -> tuple[str, ...]:
        found = []
        for command in top.texts(key):
            text, without = rewrite(command)
            dropped.update(dict.fromkeys(without))
            found.append(text)
        return tuple(found)

    head_start, worker_start = rewritten("head_start_ray_commands"), rewritten("worker_start_ray_commands")
    if dropped:
        remarks.append(f"without effect, of `ray start`: {', '.join(dropped)}; `kernel start` has no counterpart")
    outside, setup = top.texts("initialization_commands"), top.texts("setup_commands")
    head_setup, worker_setup = top.texts("head_setup_commands"), top.texts("worker_setup_commands")
    if any("pip install" in each and _names_ray(each) for each in (*setup, *head_setup, *worker_setup)):
        remarks.append(
            "commands that install ray are run as they are; kernel must be installed beside it, by a command"
        )
    return CommandPlan(outside, setup, head_setup, worker_setup, head_start, worker_start)


def _names_ray(command: str) -> bool:
    words: list[Any] = command.replace("'", " ").replace('"', " ").split()
    return any(word == "ray" or word.startswith(("ray[", "ray==", "ray>")) or "/ray-" in word for word in words)
