"""What the provider is told: the cluster's name, the kinds of machines, and how a machine starts a node."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.nearest import nearest
from kernel_spec.providers import INVALID

BOOT_SECONDS = 60.0
_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,28}[a-z0-9])?")
_OWN = ("boot_seconds", "image", "node_labels", "price", "resources")
_OURS = ("name", "zone")


@dataclass(frozen=True, slots=True)
class GcpKind:
    """One kind. `body` has fields of Compute Engine's Instance; `resources` and `price` are None if not given."""

    name: str
    body: Mapping[str, Any]
    resources: Mapping[str, float] | None = None
    price: float | None = None
    node_labels: Mapping[str, str] = field(default_factory=dict)
    boot_seconds: float = BOOT_SECONDS

    @property
    def machine_type(self) -> str:
        """Return the machine type."""
        return str(self.body["machineType"])

    @property
    def is_spot(self) -> bool:
        """Return whether its machines may be taken away."""
        scheduling = self.body.get("scheduling", {})
        return bool(scheduling.get("preemptible") or scheduling.get("provisioningModel") == "SPOT")


@dataclass(frozen=True, slots=True)
class GcpSettings:
    """All that is configured. `session` is where files may be kept, None for nowhere.

    A machine starts a node as `user`, by the interpreter `python`, after `setup_commands`; `start_options` are further
    arguments of `kernel start`.
    """

    project: str
    zones: Sequence[str]
    cluster: str
    kinds: Mapping[str, GcpKind]
    role: str = "node"
    labels: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    user: str = ""
    python: str = "python3"
    setup_commands: Sequence[str] = ()
    start_options: Sequence[str] = ()
    session: Path | None = None


_KNOWN = (
    "cluster_name", "kinds", "labels", "node_config", "prices", "project", "python", "role", "service_account",
    "session", "setup_commands", "start_options", "user", "zones",
)  # fmt: skip
_LISTS = ("setup_commands", "start_options", "zones")
_TEXTS = ("cluster_name", "project", "python", "role", "service_account", "user")


def read_settings(given: Mapping[str, Any]) -> GcpSettings:
    """Return the settings. Raises NodeProviderError (`invalid`) for what is missing, unknown or of a wrong type."""
    _check_names(given, _KNOWN, "an option of the node provider 'gcp'")
    for name in _LISTS:
        value = given.get(name, [])
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise wrong(f"{name} must be a list of texts, not {value!r}")
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str):
            raise wrong(f"{name} must be a text, not {given[name]!r}")
    for name in ("cluster_name", "role"):
        value = given.get(name, "node" if name == "role" else "")
        if not _NAME.fullmatch(value):
            raise wrong(
                f"{name} must be up to 30 small letters, digits and '-', a letter first, not {value!r}: machines are "
                "named by it"
            )
    if not given.get("project"):
        raise wrong("project must be the id of a project")
    if not given.get("zones"):
        raise wrong('zones must name the zones in which machines may be: zones = ["us-west1-a"]')
    session = given.get("session")
    return GcpSettings(
        project=given["project"],
        zones=tuple(given["zones"]),
        cluster=given["cluster_name"],
        kinds=_kinds(given),
        role=given.get("role", "node"),
        labels=dict(given.get("labels", {})),
        service_account=given.get("service_account", ""),
        user=given.get("user", ""),
        python=given.get("python", "python3"),
        setup_commands=tuple(given.get("setup_commands", ())),
        start_options=tuple(given.get("start_options", ())),
        session=Path(session) / "provider_gcp" if session else None,
    )


def wrong(text: str) -> NodeProviderError:
    """Return the error for an option that is wrong."""
    return NodeProviderError(f"node provider 'gcp': {text}", code=INVALID)


def _kinds(given: Mapping[str, Any]) -> dict[str, GcpKind]:
    kinds, common, prices = given.get("kinds"), given.get("node_config", {}), given.get("prices", {})
    if isinstance(kinds, (list, tuple)):
        kinds = {name: {} for name in kinds}
    if not kinds or not isinstance(kinds, Mapping):
        raise wrong('kinds must name machine types: kinds = ["n2-standard-4"], or a table of names and settings')
    return {name: _kind(name, {**common, **said}, prices) for name, said in kinds.items()}


def _kind(name: str, said: Mapping[str, Any], prices: Mapping[str, float]) -> GcpKind:
    if not re.fullmatch(r"[a-z0-9_-]{1,63}", name):
        raise wrong(f"the kind {name!r} must be small letters, digits, '-' and '_': it is a label of machines")
    body = {key: value for key, value in said.items() if key not in _OWN}
    for key in _OURS:
        if key in body:
            raise wrong(f"kind {name!r} has {key!r}, which the provider itself gives")
    body.setdefault("machineType", name)
    scheduling = body.get("scheduling")
    if isinstance(scheduling, (list, tuple)):  # as in Ray's first files
        body["scheduling"] = {key: value for one in scheduling for key, value in one.items()}
    if "image" in said and "disks" not in body:
        body["disks"] = [{"boot": True, "autoDelete": True, "initializeParams": {"sourceImage": said["image"]}}]
    if not body.get("disks"):
        raise wrong(f"kind {name!r} has no image: give the path of one with kernel installed, or disks")
    price = said.get("price", prices.get(name, prices.get(body["machineType"])))
    if price is not None and (isinstance(price, bool) or not isinstance(price, (int, float)) or price < 0):
        raise wrong(f"the price of kind {name!r} must be a number, zero or more, not {price!r}")
    return GcpKind(
        name,
        body,
        dict(said["resources"]) if "resources" in said else None,
        None if price is None else float(price),
        dict(said.get("node_labels", {})),
        float(said.get("boot_seconds", BOOT_SECONDS)),
    )


def _check_names(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(known)}"
            raise wrong(f"{name!r} is not {what}{hint}")
