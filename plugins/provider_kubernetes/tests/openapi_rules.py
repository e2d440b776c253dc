"""Check objects against what the published OpenAPI document of Kubernetes says of them (`openapi_rules.json`)."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import Any

_MODELS = json.loads(Path(__file__).with_name("openapi_rules.json").read_text())["models"]
_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "float": (int, float), "bytes": (str,)}
_ANY = ("object",)
KINDS = {
    ("v1", "Pod"): "V1Pod", ("v1", "PodList"): "V1PodList", ("v1", "Secret"): "V1Secret", ("v1", "Status"): "V1Status",
    ("v1", "Service"): "V1Service", ("v1", "ServiceAccount"): "V1ServiceAccount", ("v1", "Namespace"): "V1Namespace",
    ("v1", "DeleteOptions"): "V1DeleteOptions", ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "PersistentVolumeClaim"): "V1PersistentVolumeClaim",
    ("apps/v1", "Deployment"): "V1Deployment", ("batch/v1", "Job"): "V1Job",
    ("rbac.authorization.k8s.io/v1", "Role"): "V1Role",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "V1RoleBinding",
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): "V1ClusterRole",
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): "V1ClusterRoleBinding",
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): "V1CustomResourceDefinition",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "V2HorizontalPodAutoscaler",
    ("coordination.k8s.io/v1", "Lease"): "V1Lease",
}  # fmt: skip
"""The models of objects, by their apiVersion and kind."""
_LABEL_NAME = re.compile(r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def problems_of(given: Any) -> list[str]:
    """Return what is wrong with an object, nothing if it is right."""
    if not isinstance(given, dict):
        return [f"{given!r} is no object"]
    model = KINDS.get((given.get("apiVersion", ""), given.get("kind", "")))
    if model is None:
        return [f"there is no kind {given.get('kind')!r} in {given.get('apiVersion')!r}"]
    return [*_of_model(model, given, model[2:]), *_of_metadata(given.get("metadata") or {})]


def problems_of_spec(model: str, given: Any) -> list[str]:
    """Return what is wrong with a part of an object, such as a `V1PodTemplateSpec`."""
    return _of_model(model, given, model[2:])


def _of_model(model: str, given: Any, where: str) -> list[str]:
    if not isinstance(given, dict):
        return [f"{where} is {given!r}, not an object"]
    rules = _MODELS[model]
    found = [f"{where} lacks {name}" for name in rules["required"] if given.get(name) is None]
    for name, value in given.items():
        type = rules["fields"].get(name)
        if type is None:
            found.append(f"{where} has no field {name!r}")
        elif value is not None:
            found += _of_type(type, value, f"{where}.{name}")
    return found


def _of_type(type: str, value: Any, where: str) -> list[str]:
    inner = re.fullmatch(r"(List|Dict)\[(?:str, )?(.*)\]", type)
    if inner and inner[1] == "List":
        if not isinstance(value, list):
            return [f"{where} is {value!r}, not a list"]
        return [text for index, one in enumerate(value) for text in _of_type(inner[2], one, f"{where}[{index}]")]
    if inner:
        if not isinstance(value, dict):
            return [f"{where} is {value!r}, not a map"]
        quantity = where.endswith((".requests", ".limits", ".capacity", ".allocatable"))
        return [
            text for key, one in value.items() if not (quantity and isinstance(one, (int, float)))
            for text in _of_type(inner[2], one, f"{where}.{key}")
        ]  # fmt: skip
    if type in _MODELS:
        return _of_model(type, value, where)
    return _of_plain(type, value, where)


def _of_plain(type: str, value: Any, where: str) -> list[str]:
    if type in _ANY or type not in (*_PLAIN, "int", "datetime"):
        return []
    if type == "int":
        right = isinstance(value, int) and not isinstance(value, bool)
    elif type == "datetime":
        try:
            right = datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00")).tzinfo is not None
        except ValueError:
            right = False
    else:
        right = isinstance(value, _PLAIN[type])
    return [] if right else [f"{where} is {value!r}, not {type}"]


def _of_metadata(metadata: dict[str, Any]) -> list[str]:
    """Check names and labels, whose syntax is in the document as text only."""
    found = []
    name = metadata.get("name")
    if name is not None and not _NAME.fullmatch(str(name)):
        found.append(f"metadata.name {name!r} is no name")
    for key, value in (metadata.get("labels") or {}).items():
        if not _LABEL_NAME.fullmatch(str(key)):
            found.append(f"metadata.labels: {key!r} is no name of a label")
        if not _LABEL_VALUE.fullmatch(str(value)):
            found.append(f"metadata.labels: {value!r} is no value of a label")
    return found
