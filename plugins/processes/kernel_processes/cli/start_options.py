"""Convert the options of `kernel start` into the settings of the node's agent: places, token, TLS, metadata."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernel.api.init_options import check_init
from kernel.commands import Refusal
from kernel.plugins import PluginManager
from kernel_processes.cli.tokens import token_of_head, token_to_join
from kernel_processes.node.detection import address_towards
from kernel_processes.node.networks import usable_tls
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.session.agent_settings import agent_config
from kernel_processes.transport.addresses import HEAD, SCHEME, format_host_and_port, parse_host_and_port
from kernel_spec.dataclass import dataclass
from kernel_spec.engines import SessionOptions
from kernel_spec.errors import OptionError
from kernel_spec.labels import PROVIDER_ID_LABEL
from kernel_spec.tls_files import TlsFiles

PORT = 6380
"""Default TCP port of a head."""
LOOPBACK = "127.0.0.1"
AWAY_SECONDS = 60.0
"""Default time in seconds for which nodes try to reach a lost head."""
AWAY_VARIABLE = "KERNEL_HEAD_AWAY_SECONDS"
_ONLY_FOR_HEADS = (
    "scheduler", "object_store", "serializer", "metadata_store", "metadata_path", "head_service", "node_death_seconds",
    "head_away_seconds",
)  # fmt: skip
_ANYWHERE = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The settings of a node to start: the options that `kernel.init` has too, and those for clusters only.

    `head` is where the head to join listens ("HOST:PORT"), "" for a node with the head; `listen`, `any_port` and
    `advertised` are as in `AgentConfig`.
    """

    node: SessionOptions
    token: bytes
    listen: str
    any_port: bool = False
    advertised: str = ""
    head: str = ""
    tls: TlsFiles | None = None
    metadata_directory: str = ""
    death_seconds: float = 5.0
    head_away_seconds: float = AWAY_SECONDS

    def agent_config(self, directory: str, token: bytes, ephemeral: bool) -> AgentConfig:
        """Return the settings for the agent of a new session in `directory`."""
        return replace(
            agent_config(self.node, directory, token, ephemeral),
            head=f"{SCHEME}{self.head}/{HEAD}" if self.head else "",
            head_apart=not self.head,
            listen=self.listen,
            any_port=self.any_port,
            advertised=self.advertised,
            tls=self.tls,
            metadata_directory=self.metadata_directory,
            death_seconds=self.death_seconds,
            head_away_seconds=self.head_away_seconds,
        )


def start_options(head: bool, address: str | None, given: Mapping[str, Any]) -> StartOptions:
    """Check the options of the command and return the settings. Raises Refusal or OptionError for invalid ones."""
    if head and address is not None:
        raise Refusal("--head starts a cluster and --address joins one: give only one of them")
    if address is not None:
        parse_host_and_port(address)
        wrong = ", ".join(f"--{name.replace('_', '-')}" for name in _ONLY_FOR_HEADS if given[name] not in (None, ()))
        if wrong:
            raise Refusal(f"{wrong} is given where the head is started, and holds for all of its nodes")
    tls = usable_tls(given["tls"], os.environ)  # Checked here, because the agent would report it later.
    return _of_head(given, tls) if address is None else _of_node(address, given, tls)


def _of_head(given: Mapping[str, Any], tls: TlsFiles | None) -> StartOptions:
    metadata: Path | None = given["metadata_path"]
    if metadata is not None:
        _make_private(metadata)
    host, port = given["node_ip_address"] or LOOPBACK, given["port"]
    # Nodes look for a restarted head at the same port.
    any_port = port is None and metadata is None and not given["listen"]
    listen, advertised = _places(host, PORT if port is None else port, given)
    return StartOptions(
        _init_options(given, _metadata_store(given)),
        token_of_head(given["token_file"], metadata),
        listen,
        any_port,
        advertised,
        tls=tls,
        metadata_directory=str(metadata.absolute()) if metadata is not None else "",
        death_seconds=given["node_death_seconds"] or 5.0,
        head_away_seconds=_away_seconds(given),
    )


def _away_seconds(given: Mapping[str, Any]) -> float:
    """Return the seconds for which nodes try to reach this head: from the option, the environment, or the default.

    Raises OptionError for an invalid value in the environment.
    """
    text = os.environ.get(AWAY_VARIABLE)
    if given["head_away_seconds"] is not None or not text:
        seconds: float | None = given["head_away_seconds"]
        return AWAY_SECONDS if seconds is None else seconds
    try:
        seconds = float(text)
    except ValueError:
        seconds = None
    if seconds is None or not 0 <= seconds < math.inf:
        raise OptionError(f"{AWAY_VARIABLE}={text!r} must be a number of seconds, zero or more")
    return seconds


def _of_node(head: str, given: Mapping[str, Any], tls: TlsFiles | None) -> StartOptions:
    token = token_to_join(head, given["token_file"])
    try:
        host = given["node_ip_address"] or address_towards(*parse_host_and_port(head))
    except OSError as error:
        raise Refusal(f"{head} can't be reached from this machine: {error.strerror}") from error
    listen, advertised = _places(host, given["port"] or 0, given)
    return StartOptions(_init_options(given, None), token, listen, advertised=advertised, head=head, tls=tls)


def _places(host: str, port: int, given: Mapping[str, Any]) -> tuple[str, str]:
    """Return where to listen, and the place to advertise to others, "" if it is the same."""
    reached = format_host_and_port(host, port)
    if not given["listen"]:
        if host in _ANYWHERE:
            raise Refusal(
                f"other machines can't reach --node-ip-address {host}; give an address that they can reach, and "
                f"--listen {reached} to listen everywhere"
            )
        return reached, ""
    listen_host, listen_port = parse_host_and_port(given["listen"])
    if given["node_ip_address"] is None and listen_host in _ANYWHERE:
        raise Refusal(f"--listen {given['listen']} needs --node-ip-address HOST: where others reach this machine")
    if given["node_ip_address"] is None:
        host = listen_host
    return given["listen"], format_host_and_port(host, given["port"] or listen_port)


def _metadata_store(given: Mapping[str, Any]) -> str | None:
    """Return the chosen metadata store of a head, or without a choice sqlite if it is installed."""
    manager = PluginManager.discover({"metadata_store": given["metadata_store"]} if given["metadata_store"] else {})
    lasting = manager.selection("metadata_store").is_default and "sqlite" in manager.offered("metadata_store")
    return "sqlite" if lasting else given["metadata_store"]


def _init_options(given: Mapping[str, Any], metadata_store: str | None) -> SessionOptions:
    options = SessionOptions(
        address=None,
        num_cpus=given["num_cpus"],
        num_gpus=given["num_gpus"],
        resources=given["resources"],
        memory=given["memory"],
        memory_limit=given["memory_limit"],
        memory_threshold=given["memory_threshold"],
        memory_quotas=given["memory_quotas"],
        driver_object_store_memory=None,
        object_store_memory=given["object_store_memory"],
        object_store_directory=given["object_store_directory"],
        spill_directory=given["spill_directory"],
        labels=_labels(given),
        local_mode=False,
        namespace=None,
        runtime_env=None,
        log_to_driver=True,
        logging_level="warning",
        temp_dir=given["temp_dir"],
        object_id_seed=None,
        plugins={
            "scheduler": given["scheduler"],
            "object_store": given["object_store"],
            "serializer": list(given["serializer"]) or None,
            "metadata_store": metadata_store,
            "spill_target": given["spill_target"],
        },
        head_services=tuple(given["head_service"]),
        preload=list(given["preload"]) or None,
    )
    check_init(options)
    return options


def _labels(given: Mapping[str, Any]) -> dict[str, str]:
    said = {PROVIDER_ID_LABEL: given["provider_id"]} if given["provider_id"] else {}
    labels: dict[str, str] = {}
    for some in (given["labels_file"] or {}, *given["labels"], said):
        labels |= some
    return labels


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = directory.stat()
    except OSError as error:
        raise Refusal(f"--metadata-path {directory} can't be used: {error.strerror}") from error
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
        raise Refusal(f"--metadata-path {directory} must belong to you alone; run: chmod 700 {directory}")
