"""What a cluster is to be, whichever file describes it. Values only: reading is in `config`, doing in `steps`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel_spec.dataclass import dataclass

HEAD, WORKER = "head", "worker"
"""What a machine is of its cluster."""


@dataclass(frozen=True, slots=True)
class SshAccess:
    """How machines are logged in to: the user and the key ("": ssh's own choice), the port, a command to go through."""

    user: str = ""
    key: str = ""
    port: int = 22
    proxy_command: str = ""


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The container in which commands run: its image and options on the head and on workers, and what runs it.

    `program` is docker or podman; with `pull` an image is fetched anew each time that the container is started.
    """

    program: str = "docker"
    name: str = "kernel"
    head_image: str = ""
    worker_image: str = ""
    head_options: tuple[str, ...] = ()
    worker_options: tuple[str, ...] = ()
    pull: bool = False


@dataclass(frozen=True, slots=True)
class KindPlan:
    """A kind of machine: what the provider is told of it, and how many workers of it there are at least and at most.

    `resources` and `labels` are those that its nodes join with, where the provider can't know them.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    minimum: int = 0
    maximum: int | None = None
    setup: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A file or directory that is copied: from `local` here (absolute) to `remote` there, where ssh expands `~`."""

    remote: str
    local: str


@dataclass(frozen=True, slots=True)
class CommandPlan:
    """The commands of machines, in the order in which they run: outside of a container, to set up, and to start."""

    outside: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    head_setup: tuple[str, ...] = ()
    worker_setup: tuple[str, ...] = ()
    head_start: tuple[str, ...] = ()
    worker_start: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster. Numbers of workers count workers only: the head comes beside them.

    `head_host` and `worker_hosts` are machines that are there already; where there are none, the node provider makes
    them, the head of kind `head_kind`. `start_workers` is how many workers a cluster begins with. `remarks` are for the
    reader: what the file says that has no effect here.
    """

    name: str
    provider: str
    provider_options: Mapping[str, Any] = field(default_factory=dict)
    head_host: str = ""
    worker_hosts: tuple[str, ...] = ()
    head_kind: str = HEAD
    kinds: Mapping[str, KindPlan] = field(default_factory=dict)
    minimum_workers: int = 0
    maximum_workers: int = 0
    start_workers: int = 0
    idle_seconds: float = 300.0
    ssh: SshAccess = field(default_factory=SshAccess)
    container: ContainerPlan | None = None
    files: tuple[FilePlan, ...] = ()
    exclude: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    commands: CommandPlan = field(default_factory=CommandPlan)
    remarks: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Return what this cluster's own files and sessions are called: its name, and where it is.

        Clusters of one name that are in different places (of another head, account or region) never meet in a file.
        """
        place = [self.provider, self.head_host, self.ssh.user, self.ssh.port]
        place += (
            [] if self.head_host else [{name: self.provider_options[name] for name in sorted(self.provider_options)}]
        )
        digest = hashlib.sha256(json.dumps(place, sort_keys=True, default=str).encode()).hexdigest()
        return f"{self.name}-{digest[:8]}"

    @property
    def scales(self) -> bool:
        """Return whether workers come and go by themselves, made by the autoscaler on the head."""
        return not self.head_host or self.maximum_workers > max(self.minimum_workers, self.start_workers)
