"""Labels of nodes: their syntax, those that every node has, and selectors, which are conditions on labels as text.

A label's name is up to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends, and may have a
prefix such as `example.com/`. A value looks alike, or is empty. The conditions of a label selector are written as
`"a"` (this value), `"!a"` (any other, or no such label), `"in(a, b)"` and `"!in(a, b)"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

NODE_ID_LABEL = "kernel/node-id"
ACCELERATOR_LABEL = "kernel/accelerator-type"
PROVIDER_ID_LABEL = "kernel/provider-id"
"""The label of a node that a node provider has made: the provider's id of its machine."""

_NAME = r"[a-zA-Z0-9](?:[a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?"
_PART = r"[a-zA-Z0-9](?:[a-zA-Z0-9_-]*[a-zA-Z0-9])?"
_PREFIX = rf"{_PART}(?:\.{_PART})*"
_LISTED = re.compile(rf"(!?)in\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)")
_LONGEST_PREFIX = 253
_ACCELERATOR = "accelerator_type:"


def labels_of_node(id: str, given: Mapping[str, str], resources: Mapping[str, float]) -> dict[str, str]:
    """Return all labels of the node `id`: those that were `given`, and those that every node has by itself."""
    models = sorted(name.removeprefix(_ACCELERATOR) for name in resources if name.startswith(_ACCELERATOR))
    own = {ACCELERATOR_LABEL: models[0]} if models else {}
    return {**own, **given, NODE_ID_LABEL: id}


def check_labels(labels: Mapping[Any, Any]) -> None:
    """Raise ValueError for an invalid name or value; the message has the rule."""
    for name, value in labels.items():
        check_label_name(name)
        if not isinstance(value, str) or (value and not re.fullmatch(_NAME, value)):
            raise ValueError(f"label {name!r} can't have the value {value!r}: {_rule('a value')}, or empty")


def check_label_name(name: Any) -> None:
    """Raise ValueError for an invalid name of a label; the message has the rule."""
    prefix, slash, own = name.rpartition("/") if isinstance(name, str) else ("", "", "")
    if slash and (len(prefix) > _LONGEST_PREFIX or not re.fullmatch(_PREFIX, prefix)):
        raise ValueError(f"{name!r} is not a name of a label: the part before the / must be like example.com")
    if not re.fullmatch(_NAME, own):
        raise ValueError(f"{name!r} is not a name of a label: {_rule('it')}, perhaps after a prefix like example.com/")


def conditions_of_selector(selector: Any) -> dict[str, Any]:
    """Convert a label selector into conditions of `kernel_spec.placement`. Raises ValueError for an invalid one."""
    if not isinstance(selector, Mapping):
        raise ValueError(
            f'a label selector is a mapping of label to condition, such as {{"zone": "in(a, b)"}}, not {selector!r}'
        )
    found = {}
    for name, text in selector.items():
        check_label_name(name)
        found[name] = _condition(name, text)
    return found


def _condition(name: str, text: Any) -> Any:
    if isinstance(text, str):
        listed = _LISTED.fullmatch(text.strip())
        if listed is not None:
            values = [value.strip() for value in listed[2].split(",")]
            return {"not_in" if listed[1] else "in": values}
        if not text or re.fullmatch(_NAME, text):
            return [text]
        if text.startswith("!") and re.fullmatch(_NAME, text[1:]):
            return {"not_in": [text[1:]]}
    raise ValueError(
        f'the condition on label {name!r} must be "a", "!a", "in(a, b)" or "!in(a, b)", where {_rule("a value")}, '
        f"not {text!r}"
    )


def _rule(what: str) -> str:
    return f"{what} has up to 63 letters, digits, -, _ and ., and a letter or digit at both ends"
