"""Render a Helm chart that keeps to few words: values, `if`, `range`, `quote`, `toYaml`, `toJson`, `nindent`.

There is no helm where the tests run. What this does not know it refuses, so charts that pass use only these words,
which mean what they mean to Go's text/template and to Helm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_ACTION = re.compile(r"(\s*)\{\{-\s*(.*?)\s*\}\}|\{\{\s+(.*?)\s+\}\}", re.DOTALL)


@dataclass
class _Block:
    """A part of a template: text, values, and blocks in blocks."""

    word: str
    parts: list[Any] = field(default_factory=list)
    other: list[Any] | None = None


def render(text: str, values: Mapping[str, Any], release: str, namespace: str) -> str:
    """Return the text of a template. Raises ValueError for a word that is not known, or a value that is not there."""
    top = {"Values": values, "Release": {"Name": release, "Namespace": namespace}}
    return _filled(_parsed(text).parts, {"": top, "$": top})


def _parsed(text: str) -> _Block:
    stack, at = [_Block("")], 0
    for found in _ACTION.finditer(text):
        block = stack[-1]
        target = block.parts if block.other is None else block.other
        target.append(text[at : found.start()])
        at = found.end()
        word = found[2] if found[2] is not None else found[3]
        if word == "end":
            stack.pop()
        elif word == "else":
            block.other = []
        elif word.startswith(("if ", "range ")):
            inner = _Block(word)
            target.append(inner)
            stack.append(inner)
        else:
            target.append((word,))
    if len(stack) != 1:
        raise ValueError(f"{stack[-1].word!r} has no end")
    stack[0].parts.append(text[at:])
    return stack[0]


def _filled(parts: list[Any], names: Mapping[str, Any]) -> str:
    shown = []
    for part in parts:
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, tuple):
            shown.append(_value_text(_piped(part[0], names)))
        elif part.word.startswith("if "):
            chosen = part.parts if _piped(part.word[3:], names) else part.other or []
            shown.append(_filled(chosen, names))
        else:
            found = re.fullmatch(r"range (\$\w+), (\$\w+) := (.*)", part.word)
            if found is None:
                raise ValueError(f"{part.word!r} is not known here")
            for key, value in sorted(_piped(found[3], names).items()):
                shown.append(_filled(part.parts, {**names, found[1]: key, found[2]: value}))
    return "".join(shown)


def _piped(word: str, names: Mapping[str, Any]) -> Any:
    first, *steps = [step.strip() for step in word.split("|")]
    if first.startswith("toYaml "):
        value: Any = yaml.safe_dump(_looked_up(first.removeprefix("toYaml "), names)).rstrip()
    else:
        value = _looked_up(first, names)
    for step in steps:
        if step == "quote":
            value = json.dumps(_value_text(value))
        elif step == "toJson":
            value = json.dumps(value)
        elif step.startswith("nindent "):
            indent = " " * int(step.removeprefix("nindent "))
            value = "\n" + "\n".join(indent + line for line in str(value).splitlines())
        else:
            raise ValueError(f"{step!r} is not known here")
    return value


def _looked_up(word: str, names: Mapping[str, Any]) -> Any:
    if not re.fullmatch(r"\$?\w*(\.\w+)*", word):
        raise ValueError(f"{word!r} is not known here")
    start, *keys = word.split(".")
    value = names[start]
    for key in keys:
        if key not in value:
            raise ValueError(f"there is no value {word!r}")
        value = value[key]
    return value


def _value_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
