"""Label every node, with Ray's names of the labels and with kernel's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_spec.labels import ACCELERATOR_LABEL, NODE_ID_LABEL

_KERNEL = {"ray.io/node-id": NODE_ID_LABEL, "ray.io/accelerator-type": ACCELERATOR_LABEL}
_RAY = {name: spelled for spelled, name in _KERNEL.items()}


def to_kernel(labels: Any, inside: bool = False) -> Any:
    """Return labels, or conditions on them, under kernel's names; with `inside`, those of a fallback's choice.

    What is no mapping is returned as it is, for kernel to refuse.
    """
    if not isinstance(labels, Mapping):
        return labels
    if inside:
        return {name: to_kernel(value) if name == "label_selector" else value for name, value in labels.items()}
    return {_KERNEL.get(name, name): value for name, value in labels.items()}


def to_ray(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels under Ray's names."""
    return {_RAY.get(name, name): value for name, value in labels.items()}
