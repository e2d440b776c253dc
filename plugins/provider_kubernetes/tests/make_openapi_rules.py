"""Write `openapi_rules.json`: which fields the published OpenAPI document of Kubernetes gives what this plugin sends.

    python plugins/provider_kubernetes/tests/make_openapi_rules.py      # where `pip install kubernetes` is installed

The official client is generated from that document, and its models name each field, its type, and whether it must be
there. This keeps those of the kinds in `ROOTS`, and of all that these hold.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOTS = (
    "V1Pod", "V1PodList", "V1Secret", "V1Service", "V1ServiceAccount", "V1Namespace", "V1Deployment", "V1Job",
    "V1Role", "V1RoleBinding", "V1ClusterRole", "V1ClusterRoleBinding", "V1CustomResourceDefinition",
    "V1DeleteOptions", "V1Status", "V1ConfigMap", "V1PersistentVolumeClaim", "V1NetworkPolicy",
    "V1PodDisruptionBudget", "V2HorizontalPodAutoscaler", "V1Lease",
)  # fmt: skip
FILE = Path(__file__).with_name("openapi_rules.json")


def rules() -> dict[str, dict[str, Any]]:
    """Return, by model, its fields with their types, and the names of those that must be there."""
    from kubernetes import client

    todo, found = list(ROOTS), dict[str, dict[str, Any]]()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        model = getattr(client, name)
        types = {model.attribute_map[field]: type for field, type in model.openapi_types.items()}
        required = [model.attribute_map[field] for field, one in model.model_fields.items() if one.is_required()]
        found[name] = {"fields": types, "required": required}
        for type in types.values():
            todo += [word for word in re.findall(r"\w+", type) if hasattr(client, word)]
    return dict(sorted(found.items()))


def main() -> None:
    """Write the file."""
    import kubernetes

    text = {"client": kubernetes.__version__, "models": rules()}
    FILE.write_text(json.dumps(text, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
