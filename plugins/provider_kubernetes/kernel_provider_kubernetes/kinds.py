"""What a kind of pod has: read from the requests and limits of its template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from kernel_provider_kubernetes.quantities import quantity
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import NodeProviderError
from kernel_spec.labels import check_labels
from kernel_spec.nearest import nearest
from kernel_spec.providers import INVALID, KindDetails

CONTAINER = "kernel"
"""The container of a template that is the node; where none has this name, it is the first."""
STORE_SHARE = 0.3
"""Of a container's memory that the object store gets, where nothing is said."""
DEVICES = {"nvidia.com/gpu": "GPU", "amd.com/gpu": "GPU"}
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_SHORT = ("image", "cpu", "memory", "gpus", "service_account", "node_selector")
_OPTIONS = (
    *_SHORT, "template", "object_store_memory", "resources", "devices", "price", "spot", "zone", "labels",
    "boot_seconds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodKind:
    """A kind of pod. `resources` are those of its node, `store` the bytes of its object store."""

    name: str
    template: Mapping[str, Any]
    resources: Mapping[str, float]
    store: int
    memory_limit: int
    details: KindDetails = field(default_factory=KindDetails)


def kind_of(name: str, said: Mapping[str, Any]) -> PodKind:
    """Return the kind that `said` configures. Raises NodeProviderError, which names the kind and the key."""
    where = f"kind {name!r} of the node provider 'kubernetes'"
    if not _NAME.fullmatch(name):
        raise _wrong(f"{where} can't be part of the names of pods: up to 20 of a-z, 0-9 and -, with a letter first")
    check_names(said, _OPTIONS, where)
    template = _template(said, where)
    container = node_container(template, where)
    limits, requests = (_quantities(container, part, where) for part in ("limits", "requests"))
    found = {**requests, **limits}
    for needed in ("cpu", "memory"):
        if not found.get(needed):
            raise _wrong(f"{where} says no {needed} in the requests or limits of container {container.get('name')!r}")
    memory = int(found["memory"])
    store = int(_number(said, "object_store_memory", where) or memory * STORE_SHARE)
    if store >= memory:
        raise _wrong(f"{where} has an object store of {store} bytes, but memory of {memory} bytes in all")
    resources = {"CPU": found["cpu"], "memory": float(memory - store)}
    for device, resource in {**DEVICES, **said.get("devices", {})}.items():
        if found.get(device):
            resources[resource] = resources.get(resource, 0.0) + found[device]
    for resource, amount in said.get("resources", {}).items():
        resources[str(resource)] = float(amount)
    return PodKind(name, template, resources, store, int(limits.get("memory", 0)), _details(said, where))


def node_container(template: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the container of a pod's template that is the node. Raises NodeProviderError where there is none."""
    spec = template.get("spec")
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not containers or not all(isinstance(one, Mapping) for one in containers):
        raise _wrong(f"the template of {where} has no spec.containers")
    found: Mapping[str, Any] = next((one for one in containers if one.get("name") == CONTAINER), containers[0])
    return found


def check_names(said: object, known: tuple[str, ...], where: str) -> None:
    """Raise NodeProviderError if `said` is no mapping, or has a key that is not known."""
    if not isinstance(said, Mapping):
        raise _wrong(f"{where} must be a table, not {said!r}")
    for name in said:
        if name not in known:
            near = nearest(str(name), known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise _wrong(f"{name!r} is nothing that {where} has; it has {', '.join(known)}{hint}")


def _template(said: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    given = said.get("template")
    if given is None:
        return _short_template(said, where)
    both = [name for name in _SHORT if name in said]
    if both:
        raise _wrong(f"{where} has a template, which says what {', '.join(both)} would: give one or the other")
    if isinstance(given, str):
        given = _read(Path(given).expanduser(), where)
    if not isinstance(given, Mapping):
        raise _wrong(f"the template of {where} must be a pod's metadata and spec, or a file with them, not {given!r}")
    kind = given.get("kind", "Pod")
    if kind not in ("Pod", "PodTemplate"):
        raise _wrong(f"the template of {where} is a {kind}, not a Pod")
    template: Mapping[str, Any] = given.get("template", given) if kind == "PodTemplate" else given
    return template


def _short_template(said: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the template for the few keys that most need."""
    if not said.get("image"):
        raise _wrong(f"{where} needs an image (with cpu and memory), or a template")
    amounts = {"cpu": str(said.get("cpu", "")), "memory": str(said.get("memory", ""))}
    if said.get("gpus"):
        amounts["nvidia.com/gpu"] = str(said["gpus"])
    amounts = {name: text for name, text in amounts.items() if text}
    container = {"name": CONTAINER, "image": said["image"], "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {"containers": [container]}
    if said.get("service_account"):
        spec["serviceAccountName"] = said["service_account"]
    if said.get("node_selector"):
        spec["nodeSelector"] = dict(said["node_selector"])
    return {"spec": spec}


def _read(file: Path, where: str) -> object:
    import yaml

    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _wrong(f"the template {file} of {where} can't be read: {error}") from None


def _quantities(container: Mapping[str, Any], part: str, where: str) -> dict[str, float]:
    try:
        return {str(name): quantity(text) for name, text in (container.get("resources", {}).get(part) or {}).items()}
    except ValueError as error:
        raise _wrong(f"the {part} of {where}: {error}") from None


def _number(said: Mapping[str, Any], name: str, where: str) -> float | None:
    if said.get(name) is None:
        return None
    try:
        found = quantity(said[name])
    except ValueError as error:
        raise _wrong(f"{name} of {where}: {error}") from None
    if found < 0:
        raise _wrong(f"{name} of {where} must be zero or more, not {said[name]!r}")
    return found


def _details(said: Mapping[str, Any], where: str) -> KindDetails:
    labels = {str(name): str(value) for name, value in said.get("labels", {}).items()}
    try:
        check_labels(labels)
    except ValueError as error:
        raise _wrong(f"the labels of {where}: {error}") from None
    return KindDetails(
        _number(said, "price", where),
        bool(said.get("spot")),
        str(said.get("zone", "")),
        labels,
        _number(said, "boot_seconds", where) or 60.0,
    )


def _wrong(text: str) -> NodeProviderError:
    return NodeProviderError(text, code=INVALID)
