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

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?")
_OWN = ("boot_seconds", "labels", "price", "resources")
_OURS = ("ClientToken", "DryRun", "MaxCount", "MinCount", "UserData")
"""Settings of RunInstances that the provider itself gives."""
BOOT_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class KindSettings:
    """One kind: `launch` has the settings of RunInstances, `subnets` where its machines may be, in this order.

    `resources` and `price` (per hour) are None where EC2 is to be asked.
    """

    name: str
    launch: Mapping[str, Any]
    subnets: Sequence[str] = ()
    resources: Mapping[str, float] | None = None
    price: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    boot_seconds: float = BOOT_SECONDS

    @property
    def instance_type(self) -> str:
        """Return the instance type."""
        return str(self.launch["InstanceType"])

    @property
    def is_spot(self) -> bool:
        """Return whether its machines may be taken away."""
        return bool(self.launch.get("InstanceMarketOptions", {}).get("MarketType") == "spot")


@dataclass(frozen=True, slots=True)
class NodeStart:
    """How a machine starts a node: as `user`, by the interpreter `python`, after `setup_commands` in a shell.

    `start_options` are further arguments of `kernel start`.
    """

    user: str = ""
    python: str = "python3"
    setup_commands: Sequence[str] = ()
    start_options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """All that is configured. `session` is where files may be kept, None for nowhere."""

    cluster: str
    kinds: Mapping[str, KindSettings]
    region: str | None = None
    profile: str | None = None
    role: str = "node"
    zones: Sequence[str] = ()
    ssh_from: Sequence[str] = ()
    key_file: Path | None = None
    cache_stopped_nodes: bool = False
    use_internal_ips: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    start: NodeStart = field(default_factory=NodeStart)
    session: Path | None = None


_KNOWN = (
    "cache_stopped_nodes", "cluster_name", "key_file", "kinds", "node_config", "prices", "profile", "python", "region",
    "role", "session", "setup_commands", "ssh_from", "start_options", "tags", "use_internal_ips", "user", "zones",
)  # fmt: skip
_LISTS = ("setup_commands", "ssh_from", "start_options", "zones")
_TEXTS = ("cluster_name", "key_file", "profile", "python", "region", "role", "user")


def read_settings(given: Mapping[str, Any]) -> AwsSettings:
    """Return the settings. Raises NodeProviderError (`invalid`) for what is missing, unknown or of a wrong type."""
    _check_names(given, _KNOWN, "an option of the node provider 'aws'")
    for name in _LISTS:
        value = given.get(name, [])
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise wrong(f"{name} must be a list of texts, not {value!r}")
    for name in _TEXTS:
        if not isinstance(given.get(name, ""), str):
            raise wrong(f"{name} must be a text, not {given[name]!r}")
    for name in ("cache_stopped_nodes", "use_internal_ips"):
        if not isinstance(given.get(name, False), bool):
            raise wrong(f"{name} must be true or false, not {given[name]!r}")
    for name in ("cluster_name", "role"):
        value = given.get(name, "node" if name == "role" else "")
        if not _NAME.fullmatch(value):
            raise wrong(
                f"{name} must be up to 40 letters, digits, '-' and '_', not {value!r}: machines are found again by it"
            )
    session, key_file = given.get("session"), given.get("key_file")
    return AwsSettings(
        cluster=given["cluster_name"],
        kinds=_kinds(given),
        region=given.get("region") or None,
        profile=given.get("profile") or None,
        role=given.get("role", "node"),
        zones=tuple(given.get("zones", ())),
        ssh_from=tuple(given.get("ssh_from", ())),
        key_file=Path(key_file).expanduser() if key_file else None,
        cache_stopped_nodes=given.get("cache_stopped_nodes", False),
        use_internal_ips=given.get("use_internal_ips", False),
        tags=dict(given.get("tags", {})),
        start=NodeStart(
            given.get("user", ""),
            given.get("python", "python3"),
            tuple(given.get("setup_commands", ())),
            tuple(given.get("start_options", ())),
        ),
        session=Path(session) / "provider_aws" if session else None,
    )


def wrong(text: str) -> NodeProviderError:
    """Return the error for an option that is wrong."""
    return NodeProviderError(f"node provider 'aws': {text}", code=INVALID)


def _kinds(given: Mapping[str, Any]) -> dict[str, KindSettings]:
    kinds, common, prices = given.get("kinds"), given.get("node_config", {}), given.get("prices", {})
    if isinstance(kinds, (list, tuple)):
        kinds = {name: {} for name in kinds}
    if not kinds or not isinstance(kinds, Mapping):
        raise wrong('kinds must name instance types: kinds = ["m5.large"], or a table of names and settings')
    return {name: _kind(name, {**common, **said}, prices) for name, said in kinds.items()}


def _kind(name: str, said: Mapping[str, Any], prices: Mapping[str, float]) -> KindSettings:
    own = {key: value for key, value in said.items() if key[:1].islower()}
    launch = {key: value for key, value in said.items() if key not in own}
    _check_names(own, _OWN, f"a setting of kind {name!r} (nor, beginning with a small letter, one of RunInstances)")
    for key in _OURS:
        if key in launch:
            raise wrong(f"kind {name!r} has {key}, which the provider itself gives")
    launch.setdefault("InstanceType", name)
    if not launch.get("ImageId"):
        raise wrong(f'kind {name!r} has no ImageId: give an AMI with kernel installed, or "latest_dlami"')
    spot = launch.get("InstanceMarketOptions", {}).get("SpotOptions", {})
    if "MaxPrice" in spot:
        launch["InstanceMarketOptions"] = {
            **launch["InstanceMarketOptions"], "SpotOptions": {**spot, "MaxPrice": str(spot["MaxPrice"])}
        }  # fmt: skip
    subnets = launch.pop("SubnetIds", None) or ([launch.pop("SubnetId")] if "SubnetId" in launch else [])
    price = own.get("price", prices.get(name, prices.get(launch["InstanceType"])))
    if price is not None and (isinstance(price, bool) or not isinstance(price, (int, float)) or price < 0):
        raise wrong(f"the price of kind {name!r} must be a number, zero or more, not {price!r}")
    return KindSettings(
        name,
        launch,
        tuple(subnets),
        dict(own["resources"]) if "resources" in own else None,
        None if price is None else float(price),
        {**own.get("labels", {})},
        float(own.get("boot_seconds", BOOT_SECONDS)),
    )


def _check_names(given: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join(known)}"
            raise wrong(f"{name!r} is not {what}{hint}")
