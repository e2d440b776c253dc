"""Metrics as text, in the exposition format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from kernel_spec.metrics import HISTOGRAM, FamilySnapshot, MetricsSnapshot, merged

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def exposition(snapshots: Iterable[MetricsSnapshot]) -> str:
    """Return the text for several processes: each metric once, with the series of all of them.

    Values of one series in several processes are added up. A metric that has another kind or other labels in a later
    process is left out there, and a comment says so.
    """
    families, unlike = merged(snapshots)
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.description)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for values, value in family.samples:
            labels = tuple(f'{name}="{_quoted(text)}"' for name, text in zip(family.labels, values, strict=True))
            if family.kind == HISTOGRAM:
                lines.extend(_histogram(family, labels, value))
            else:
                lines.append(f"{family.name}{_braced(labels)} {number(value)}")
        if family.name in unlike:
            lines.append(f"# {family.name} is not the same {family.kind} in all processes: others are left out")
    return "\n".join(lines) + "\n" if lines else ""


def _histogram(family: FamilySnapshot, labels: tuple[str, ...], value: Any) -> Iterable[str]:
    counts, total = value
    sums = list(accumulate(counts))
    for bound, count in zip((*family.bounds, math.inf), sums, strict=True):
        yield f"{family.name}_bucket{_braced((*labels, _le(bound)))} {count}"
    yield f"{family.name}_sum{_braced(labels)} {number(total)}"
    yield f"{family.name}_count{_braced(labels)} {sums[-1]}"


def _le(bound: float) -> str:
    return f'le="{number(bound)}"'


def _braced(labels: tuple[str, ...]) -> str:
    return f"{{{','.join(labels)}}}" if labels else ""


def number(value: float) -> str:
    """Return a number in the format's syntax."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
