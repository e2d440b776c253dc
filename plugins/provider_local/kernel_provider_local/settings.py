"""Read what a provider of hosts is told: each option is checked, and an unknown one is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kernel_provider_local.leases import HostKind, host_key
from kernel_provider_local.ssh import Ssh
from kernel_spec.errors import NodeProviderError
from kernel_spec.labels import check_labels
from kernel_spec.nearest import nearest
from kernel_spec.providers import INVALID

_SSH = ("user", "key_file", "known_hosts", "ssh_options", "control_directory", "connect_seconds")
_NODE = ("session", "cluster_name", "directory", "command", "start_options")
_LOCAL = ("kinds", "leases_file")
_COORDINATOR = ("url", "token_file", "ca_file")
_KIND = tuple(one.name for one in fields(HostKind))


@dataclass(frozen=True, slots=True)
class HostSettings:
    """How nodes are started on hosts. `session` is the directory in which their starts are recorded."""

    session: Path
    cluster: str
    ssh: Ssh
    directory: str = "/tmp"
    command: str = "kernel"
    start_options: tuple[str, ...] = ()


def read_settings(configuration: Mapping[str, Any], coordinator: bool) -> HostSettings:
    """Return what `configuration` says of the cluster, SSH and nodes. Raises NodeProviderError for what is wrong."""
    name = "coordinator" if coordinator else "local"
    known = (*_SSH, *_NODE, *(_COORDINATOR if coordinator else _LOCAL))
    _check_names(configuration, known, f"an option of the node provider {name!r}")
    session = Path(_text(configuration, "session", "kernel-hosts"))
    seconds = configuration.get("connect_seconds", 10)
    if isinstance(seconds, bool) or not isinstance(seconds, int) or seconds < 1:
        raise _invalid(f"connect_seconds must be a whole number of seconds, 1 or more, not {seconds!r}")
    ssh = Ssh(
        _text(configuration, "user"), _text(configuration, "key_file"), _text(configuration, "known_hosts"),
        _texts(configuration, "ssh_options"), _text(configuration, "control_directory"), seconds,
    )  # fmt: skip
    return HostSettings(
        session,
        _text(configuration, "cluster_name", str(session)),
        ssh,
        _text(configuration, "directory", "/tmp").rstrip("/") or "/tmp",
        _text(configuration, "command", "kernel"),
        _texts(configuration, "start_options"),
    )


def read_leases_file(configuration: Mapping[str, Any]) -> Path:
    """Return the file with the leases of the hosts of this machine's user."""
    return Path(_text(configuration, "leases_file", "~/.kernel/host-leases.json")).expanduser()


def read_kinds(kinds: object) -> dict[str, HostKind]:
    """Return groups of hosts. Raises NodeProviderError for what is wrong, and for a host that is in two of them."""
    if not isinstance(kinds, Mapping) or not kinds:
        raise _invalid('kinds must be a table of groups of hosts, such as [kinds.cpu] with hosts = ["10.0.0.1"]')
    found: dict[str, HostKind] = {}
    groups: dict[str, str] = {}
    for name, said in kinds.items():
        found[name] = _kind(name, {"hosts": said} if isinstance(said, list) else said)
        for host in found[name].hosts:
            earlier = groups.setdefault(host_key(host), name)
            if earlier != name or sum(host_key(other) == host_key(host) for other in found[name].hosts) > 1:
                raise _invalid(f"host {host!r} is named twice, in kind {earlier!r} and in kind {name!r}; name it once")
    return found


def _kind(name: str, said: object) -> HostKind:
    what = f"kind {name!r} of hosts"
    if not isinstance(said, Mapping):
        raise _invalid(f"{what} must be a table with hosts, not {said!r}")
    _check_names(said, _KIND, f"a setting of {what}")
    hosts = _texts(said, "hosts")
    if not hosts or any(not host or host.startswith("-") or set(host) & set(" \t\n'\"") for host in hosts):
        raise _invalid(f"{what} needs hosts, each as [USER@]HOST[:PORT], not {list(hosts)}")
    resources = said.get("resources")
    if resources is not None:
        _check_numbers(resources, f"resources of {what}", above=0)
        if not resources:
            raise _invalid(f"{what} has no resources; leave them out to have them detected")
    numbers = {key: said[key] for key in ("price", "boot_seconds") if key in said}
    _check_numbers(numbers, what)
    labels = said.get("labels", {})
    check_labels(labels)
    return HostKind(hosts, None if resources is None else dict(resources), labels=dict(labels), **numbers)


def _check_numbers(given: object, what: str, above: float | None = None) -> None:
    if not isinstance(given, Mapping):
        raise _invalid(f"{what} must be a table of numbers, not {given!r}")
    fits: Callable[[float], bool] = (lambda value: value >= 0) if above is None else (lambda value: value > above)
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not fits(value):
            raise _invalid(f"{name} of {what} must be a number above zero, not {value!r}")


def _text(given: Mapping[str, Any], name: str, default: str = "") -> str:
    value = given.get(name, default)
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str):
        raise _invalid(f"{name} must be a text, not {value!r}")
    return value or default


def _texts(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name, ())
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise _invalid(f"{name} must be a list of texts, not {value!r}")
    return tuple(value)


def _check_names(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise _invalid(f"{name!r} is not {what}, which are {', '.join(known)}{hint}")


def _invalid(text: str) -> NodeProviderError:
    return NodeProviderError(text, code=INVALID)
