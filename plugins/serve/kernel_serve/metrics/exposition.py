"""Pictures as text, in the exposition format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from kernel_serve.metrics.registry import GAUGE, HISTOGRAM, FamilyPicture, Picture

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def exposition(pictures: Iterable[Picture]) -> str:
    """Return the text for several processes: each family once, with the series of all of them.

    What two processes say of one series is added up; a family that is of another kind in a later process is left out
    there, since a text that contradicts itself would be refused as a whole.
    """
    lines: list[str] = []
    for families in _by_name(pictures).values():
        first = families[0]
        lines.append(f"# HELP {first.name} {_escaped(first.description)}")
        lines.append(f"# TYPE {first.name} {first.kind}")
        alike = [each for each in families if (each.kind, each.bounds) == (first.kind, first.bounds)]
        for labels, value in _added(alike).items():
            if first.kind == HISTOGRAM:
                lines.extend(_histogram(first, labels, value))
            else:
                lines.append(f"{first.name}{_braced(labels)} {number(value)}")
        if len(alike) < len(families):
            lines.append(f"# {first.name} is no {first.kind} everywhere: other kinds of it are left out")
    return "\n".join(lines) + "\n" if lines else ""


def _by_name(pictures: Iterable[Picture]) -> dict[str, list[FamilyPicture]]:
    found: dict[str, list[FamilyPicture]] = {}
    for picture in pictures:
        for family in picture.families:
            if family.samples:
                found.setdefault(family.name, []).append(family)
    return dict(sorted(found.items()))


def _added(families: list[FamilyPicture]) -> dict[tuple[str, ...], Any]:
    """Return the text of labels to value."""
    found: dict[tuple[str, ...], Any] = {}
    for family in families:
        for values, value in family.samples:
            labels = tuple(f'{name}="{_quoted(text)}"' for name, text in zip(family.labels, values, strict=True))
            before = found.get(labels)
            if before is None or family.kind == GAUGE:
                found[labels] = value if before is None else before + value
            elif family.kind == HISTOGRAM:
                counts = [one + other for one, other in zip(before[0], value[0], strict=True)]
                found[labels] = (counts, before[1] + value[1])
            else:
                found[labels] = before + value
    return found


def _histogram(family: FamilyPicture, labels: tuple[str, ...], value: Any) -> Iterable[str]:
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
    """Return a number as the format has it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
