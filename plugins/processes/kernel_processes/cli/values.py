"""Parse values of options: sizes such as 500MB, resources as JSON, labels given directly or in a file."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import click

from kernel_spec.labels import check_labels

_MULTIPLES = {"": 1} | {
    prefix + unit: base ** (power + 1)
    for base, infix in ((1000, ""), (1024, "i"))
    for power, letter in enumerate("kmgtp")
    for prefix in (letter + infix,)
    for unit in ("", "b")
}
_MULTIPLES["b"] = 1


def parse_size(text: str) -> int:
    """Return the bytes of a text such as `1000`, `500MB`, `1.5 GB`, `2GiB` (1 kB is 1000 bytes, 1 KiB 1024).

    Raises ValueError for any other text.
    """
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?(?:e[0-9]+)?)\s*([a-z]*)", text.strip().lower())
    size = float(match[1]) * _MULTIPLES.get(match[2], math.nan) if match is not None else math.nan
    if not math.isfinite(size):
        raise ValueError(f"{text!r} is not a size; write bytes, or a number with a unit such as 500MB or 2GiB")
    return int(size)


def id_of(text: str) -> str:
    """Return the id in `ObjectRef(id)` or `Actor(Class, id)`, as programs print them, and any other text as it is."""
    match = re.fullmatch(r"\w+\((?:.*,\s*)?([0-9a-fA-F]+)\)", text.strip())
    return match[1] if match is not None else text.strip()


class Size(click.ParamType):
    """A size in bytes, with or without a unit."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class ResourceValues(click.ParamType):
    """A JSON object of names and quantities."""

    name = "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        """Return the quantities by resource."""
        try:
            resources = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            resources = None
        right = isinstance(resources, dict) and all(
            isinstance(q, (int, float)) and not isinstance(q, bool) for q in resources.values()
        )
        if not right:
            self.fail(
                f"""{value!r} is not a JSON object of quantities; write '{{"disk": 2, "tpu": 0.5}}' for example"""
            )
        return dict(resources)


class Labels(click.ParamType):
    """`name=value`, or several of them separated by commas."""

    name = "NAME=VALUE,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """Return name to value."""
        if isinstance(value, dict):
            return value
        pairs = [pair.partition("=") for pair in value.split(",")]
        if not all(name and equals for name, equals, _ in pairs):
            self.fail(f"{value!r} is not a label; write NAME=VALUE, for example zone=a", param, ctx)
        return {name.strip(): text.strip() for name, _, text in pairs}


class LabelsFile(click.ParamType):
    """A file with a JSON object of labels, or with a line `name: value` for each label."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        """Return name to value."""
        if isinstance(value, dict):
            return value
        try:
            return labels_in(Path(value).read_text())
        except (OSError, ValueError) as error:
            self.fail(f"no labels can be read from {value}: {error}", param, ctx)


def labels_in(text: str) -> dict[str, str]:
    """Return the labels in `text`: a JSON object, or a line `name: value` for each label. Raises ValueError."""
    if text.lstrip().startswith("{"):
        labels = json.loads(text)
    else:
        lines = [line.split(" #")[0].strip() for line in text.splitlines()]
        pairs = [line.partition(":") for line in lines if line and not line.startswith("#") and line != "---"]
        wrong = [f"{name}{colon}{value}" for name, colon, value in pairs if not colon]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not a label; write NAME: VALUE, for example zone: a")
        labels = {name.strip().strip("\"'"): value.strip().strip("\"'") for name, _, value in pairs}
    check_labels(labels)
    return labels
