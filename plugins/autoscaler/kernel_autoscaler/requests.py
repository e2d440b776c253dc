"""What programs ask of the autoscaler of their cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import kernel

NAMESPACE, STATUS = "kernel-autoscaler", "status"
"""Where the service keeps its state and its status in the session's key-value store."""


def request(bundles: Sequence[Mapping[str, float]]) -> None:
    """Have the cluster be large enough for these bundles of resources at once, for as long as this program runs.

    `bundles` are mappings such as `{"CPU": 4}`. Another call takes the place of the one before, and an empty list takes
    the wish back. Raises OptionError for what is no bundle.
    """
    kernel.request_resources(bundles)


def status() -> dict[str, Any] | None:
    """Return what the autoscaler last said of itself; None if the session has none.

    Keys: `provider`, `kinds` (by name, with count, price and whether they are to be had), `machines` and `orders`,
    `unmet` (what gets no machine, and why), `decisions` (the latest, with their reasons), `price` per hour, `spent`
    and `spent_idle`, and `at` (seconds since the epoch).
    """
    found = kernel.KeyValue(NAMESPACE).get(STATUS)
    return None if found is None else dict(json.loads(found))
