"""The configuration that was deployed last, which the session keeps: for people who ask, and for what is gone."""

from __future__ import annotations

import json
from typing import Any

import kernel

_KEY = "configuration"


def keep(data: dict[str, Any] | None) -> None:
    """Keep the `data` of a configuration in the place of the one before; None: forget it."""
    store = kernel.KeyValue("kernel_serve")
    if data is None:
        store.delete(_KEY)
    else:
        store.put(_KEY, json.dumps(data).encode())


def kept() -> dict[str, Any] | None:
    """Return the `data` of the configuration that was deployed last; None if there is none."""
    found = kernel.KeyValue("kernel_serve").get(_KEY)
    return None if found is None else json.loads(found)
