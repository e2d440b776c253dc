"""Read kernel's own cluster file, in TOML or YAML, into a `ClusterPlan`."""

from __future__ import annotations

from kernel_launcher.config.document import ClusterDocument
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

TOP = (
    "commands",
    "container",
    "exclude",
    "files",
    "filters",
    "head_kind",
    "kinds",
    "name",
    "provider",
    "ssh",
    "workers",
)
"""Keys at the top; `name` and `provider` tell kernel's own files from Ray's, which begin with cluster_name."""
_WORKERS = ("idle_seconds", "maximum", "minimum", "start")
_KIND = ("labels", "maximum", "minimum", "options", "resources", "setup")
_SSH = ("key", "port", "proxy_command", "user")
_CONTAINER = (
    "head_image", "head_options", "image", "name", "options", "program", "pull", "worker_image", "worker_options",
)  # fmt: skip
_COMMANDS = ("head_setup", "head_start", "outside", "setup", "worker_setup", "worker_start")
_LOCAL = ("head", "name", "workers")


def read_own(document: ClusterDocument) -> ClusterPlan:
    """Return what a file says. Raises OptionError, with line and column, for what is wrong in it."""
    top = FileSection(document)
    top.check_keys(TOP, "a cluster file")
    provider = top.section("provider")
    kind = provider.text("name")
    if not kind:
        raise top.wrong(("provider",), 'needs a name: name = "local", head = "HOST", for machines that are there')
    if not top.text("name"):
        raise top.wrong((), "needs a name: what the cluster is called")
    options = {key: value for key, value in provider.values.items() if key != "name"}
    head = ""
    hosts: tuple[str, ...] = ()
    if kind == "local":
        provider.check_keys(_LOCAL, "the provider local")
        head, hosts, options = provider.text("head"), provider.texts("workers"), {}
        if not head:
            raise provider.wrong((), "needs head: the machine that is to be the head")
        for place, host in enumerate(hosts):
            if host == head or host in hosts[:place]:
                raise provider.wrong(("workers", place), f"names {host} a second time: a machine is one node")
    kinds, head_kind = _kinds(top)
    workers = top.section("workers")
    workers.check_keys(_WORKERS, "workers")
    least = max(workers.count("minimum", len(hosts)) or 0, sum(each.minimum for each in kinds.values()))
    most = workers.count("maximum", max(least, workers.count("start") or 0)) or 0
    if least > most:
        raise workers.wrong(("minimum",), f"is {least}, more than the maximum, {most}")
    if hosts and most > len(hosts):
        raise workers.wrong(("maximum",), f"is {most}, and provider.workers names {len(hosts)} machines")
    return ClusterPlan(
        top.text("name"),
        kind,
        options,
        head,
        hosts,
        head_kind,
        kinds,
        least,
        most,
        min(most, max(least, workers.count("start") or 0)),
        workers.number("idle_seconds", 300.0),
        _ssh(top.section("ssh")),
        _container(top.section("container")),
        _files(top.section("files")),
        top.texts("exclude"),
        top.texts("filters"),
        _commands(top.section("commands")),
    )


def _kinds(top: FileSection) -> tuple[dict[str, KindPlan], str]:
    found = {}
    for name, section in top.section("kinds").sections().items():
        section.check_keys(_KIND, f"the kind {name}")
        found[name] = KindPlan(
            name,
            section.mapping("options"),
            section.amounts("resources"),
            section.words("labels"),
            section.count("minimum", 0) or 0,
            section.count("maximum"),
            section.texts("setup") if "setup" in section else None,
        )
    if not found:
        found = {HEAD: KindPlan(HEAD, maximum=0), WORKER: KindPlan(WORKER)}
    head_kind = top.text("head_kind", HEAD)
    if head_kind not in found:
        raise top.wrong(("head_kind",), f"must be one of kinds, {', '.join(found)}, not {head_kind}")
    return found, head_kind


def _ssh(ssh: FileSection) -> SshAccess:
    ssh.check_keys(_SSH, "ssh")
    key = ssh.local_file(ssh.text("key")) if "key" in ssh else ""
    return SshAccess(ssh.text("user"), key, ssh.count("port", 22) or 22, ssh.text("proxy_command"))


def _container(container: FileSection) -> ContainerPlan | None:
    container.check_keys(_CONTAINER, "container")
    image = container.text("image")
    head, worker = container.text("head_image") or image, container.text("worker_image") or image
    if not head and not worker:
        return None
    program = container.text("program", "docker")
    if program not in ("docker", "podman"):
        raise container.wrong(("program",), f"must be docker or podman, not {program}")
    shared = container.texts("options")
    return ContainerPlan(
        program,
        container.text("name", "kernel"),
        head,
        worker,
        shared + container.texts("head_options"),
        shared + container.texts("worker_options"),
        container.flag("pull"),
    )


def _files(files: FileSection) -> tuple[FilePlan, ...]:
    return tuple(FilePlan(remote, files.local_file(files.text(remote))) for remote in files.values)


def _commands(commands: FileSection) -> CommandPlan:
    commands.check_keys(_COMMANDS, "commands")
    return CommandPlan(
        commands.texts("outside"),
        commands.texts("setup"),
        commands.texts("head_setup"),
        commands.texts("worker_setup"),
        commands.texts("head_start"),
        commands.texts("worker_start"),
    )
