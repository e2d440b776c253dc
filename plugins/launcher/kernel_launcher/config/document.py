"""A YAML or TOML file as plain values, with the line and column of each key and value."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import yaml

from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

KeyPath = tuple[str | int, ...]
"""Keys and places in lists, from the top of a file to a value."""
_MERGE = "tag:yaml.org,2002:merge"
_TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""(\s*)((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """The values of a file. `marks` has the line and the column, both from 1, of each key by its path."""

    name: str
    values: Mapping[str, Any]
    marks: Mapping[KeyPath, tuple[int, int]] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """Return "FILE:LINE:COLUMN" of what is at a path, or of the nearest above it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.marks:
                line, column = self.marks[path[:length]]
                return f"{self.name}:{line}:{column}"
        return self.name


def read_document(file: Path) -> ClusterDocument:
    """Return what is in a file: TOML if its name says so, else YAML. Raises OptionError where it can't be read."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"the cluster file {file} can't be read: {reason}") from None
    return parse_toml(text, str(file)) if file.suffix == ".toml" else parse_yaml(text, str(file))


def parse_yaml(text: str, name: str) -> ClusterDocument:
    """Return the values of a YAML text. Raises OptionError, with line and column, for what is no mapping of YAML."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        marks: dict[KeyPath, tuple[int, int]] = {}
        values = _value(loader, node, (), marks, name) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise OptionError(f"{name}{place}: this is no YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise OptionError(f"{name}: this is no YAML: {error}") from None
    finally:
        loader.dispose()
    if not isinstance(values, dict):
        raise OptionError(f"{name}: a cluster file is a mapping of keys to values, not {_kind_of(values)}")
    return ClusterDocument(name, values, marks)


def parse_toml(text: str, name: str) -> ClusterDocument:
    """Return the values of a TOML text. Raises OptionError, which names the line, for what is no TOML."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{name}: this is no TOML: {error}") from None
    return ClusterDocument(name, values, _marks_of_toml(text))


def _value(
    loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, marks: dict[KeyPath, tuple[int, int]], name: str
) -> Any:
    marks.setdefault(path, _place(node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, each, (*path, place), marks, name) for place, each in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    _check_twice(loader, node, name)
    loader.flatten_mapping(node)
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(loader.construct_object(key_node, deep=True))
        below = (*path, key)
        marks[below] = _place(key_node)
        values[key] = _value(loader, value_node, below, marks, name)
    return values


def _check_twice(loader: yaml.SafeLoader, node: yaml.MappingNode, name: str) -> None:
    """Raise OptionError for a key that is no word, or that a mapping has twice (what is merged into it aside)."""
    seen = set()
    for key_node, _ in node.value:
        line, column = _place(key_node)
        if not isinstance(key_node, yaml.ScalarNode):
            raise OptionError(f"{name}:{line}:{column}: a key must be a word, not a list or a mapping")
        key = str(loader.construct_object(key_node)) if key_node.tag != _MERGE else ""
        if key in seen:
            raise OptionError(f"{name}:{line}:{column}: the key {key!r} is there twice; leave one of them")
        seen.add(key)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _marks_of_toml(text: str) -> dict[KeyPath, tuple[int, int]]:
    """Return where keys are. The parser of the standard library does not tell; a key in an inline table has none."""
    marks: dict[KeyPath, tuple[int, int]] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _TABLE.match(line)
        key = _KEY.match(line)
        if header and not key:
            table = _words(header.group(1))
            marks.setdefault(table, (number, line.index("[") + 1))
        elif key:
            path = (*table, *_words(key.group(2)))
            marks.setdefault(path, (number, len(key.group(1)) + 1))
    return marks


def _words(dotted: str) -> KeyPath:
    found = re.findall(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""", dotted)
    return tuple(next(word for word in each if word) for each in found if any(each))


def _kind_of(value: object) -> str:
    names = {type(None): "nothing", list: "a list", dict: "a mapping", str: "a text", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)
