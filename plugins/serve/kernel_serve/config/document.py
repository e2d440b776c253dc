"""YAML (and JSON) documents whose values have a place: a path in the document, and a line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import yaml

from kernel_serve.config.setting_names import SettingNames, known_names
from kernel_serve.errors import DeploymentError
from kernel_spec.nearest import nearest

_MOST_VALUES = 100_000
"""The largest number of values: with references to references, a document can have more than fit into memory."""

Path = tuple["str | int", ...]


class Document:
    """Holds a parsed text: plain values, and the line of each. `source` is what errors call it, such as a file's name.

    `names` are other names of settings that may be in it.
    """

    def __init__(self, value: Any, source: str, lines: Mapping[Path, int], names: SettingNames | None = None) -> None:
        self.value = value
        self.source = source
        self.names = names if names is not None else known_names()
        self._lines = lines

    def place(self, path: Path) -> str:
        """Return the place of a value, with which an error begins: `serve.yaml:12`."""
        while path and path not in self._lines:
            path = path[:-1]
        line = self._lines.get(path)
        return self.source if line is None else f"{self.source}:{line}"


def parse(text: str, source: str, names: SettingNames | None = None) -> Document:
    """Return the document of a text. Raises DeploymentError, with the line, for a text that is not YAML, or empty."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        walk = _Walk(loader, source)
        if node is None:
            raise DeploymentError(f"{source}: there is nothing in it; say `applications: []` if nothing is to run")
        return Document(walk.value(node, ()), source, walk.lines, names)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise DeploymentError(f"{where}: this is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise DeploymentError(f"{source}: this is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise DeploymentError(f"{source}: values are too deep in each other") from None
    finally:
        loader.dispose()


class _Walk:
    def __init__(self, loader: Any, source: str) -> None:
        self.lines: dict[Path, int] = {}
        self._loader = loader
        self._source = source
        self._count = 0

    def value(self, node: Any, path: Path) -> Any:
        self._count += 1
        if self._count > _MOST_VALUES:
            raise DeploymentError(f"{self._source}: there are more than {_MOST_VALUES:,} values in it")
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, number)) for number, item in enumerate(node.value)]
        return self._loader.construct_object(node, deep=True)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        own = {key.value: key for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        if len(own) < len(node.value):
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen and key.value != "<<":
                    raise DeploymentError(
                        f"{self._source}:{key.start_mark.line + 1}: {dotted((*path, str(key.value)))} is there twice"
                    )
                seen.add(str(key.value))
        self._loader.flatten_mapping(node)
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._loader.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                key = str(key)
            inner = (*path, key)
            self.lines[inner] = key_node.start_mark.line + 1
            found[key] = self.value(value_node, inner)
        return found


def dotted(path: Path) -> str:
    """Return a path as users write it: `applications[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


class Cursor:
    """Locates a value in a document. Its methods return the expected type, or raise DeploymentError with the place."""

    def __init__(self, document: Document, path: Path = (), value: Any = None) -> None:
        self.document = document
        self.path = path
        self.value = document.value if not path else value

    @property
    def where(self) -> str:
        """The place and the path, with which an error begins."""
        path = dotted(self.path)
        return f"{self.document.place(self.path)}: {path}" if path else self.document.place(self.path)

    def error(self, message: str) -> DeploymentError:
        """Return an error at this place."""
        return DeploymentError(f"{self.where}: {message}")

    def fields(self, part: str, known: Collection[str]) -> dict[str, Cursor]:
        """Return the values of a mapping by their names, which are among `known`.

        `part` says which other names of the document are known here, and which are refused. Of two names for the same
        setting one may be there without a value. Raises DeploymentError for an unknown or refused name.
        """
        aliases, refused = self.document.names.aliases_of(part), self.document.names.refused_in(part)
        if not isinstance(self.value, Mapping):
            raise self.error(f"expected a mapping of names to values, not {_shown(self.value)}")
        found: dict[str, Cursor] = {}
        for given, value in self.value.items():
            cursor = Cursor(self.document, (*self.path, given), value)
            name = aliases.get(given, given)
            if name in refused:
                raise cursor.error(refused[name])
            if name not in known:
                raise cursor.error(_unknown(given, [*known, *aliases]))
            if name in found and value is None:
                continue
            if name in found and found[name].value is not None:
                raise cursor.error(f"this is another name of {dotted(found[name].path)}, which is there as well")
            found[name] = cursor
        return found

    def items(self) -> list[Cursor]:
        """Return the values of a list; [] for an empty value."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.error(f"expected a list, not {_shown(self.value)}")
        return [Cursor(self.document, (*self.path, number), item) for number, item in enumerate(self.value)]

    def text(self) -> str:
        """Return a text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.error(f"expected a text, not {_shown(self.value)}")
        return self.value

    def mapping(self) -> dict[str, Any]:
        """Return any mapping; {} for an empty value."""
        if self.value is None:
            return {}
        if not isinstance(self.value, Mapping):
            raise self.error(f"expected a mapping of names to values, not {_shown(self.value)}")
        return dict(self.value)


def _unknown(name: str, known: Collection[str]) -> str:
    close = nearest(name, known, 0.6)
    if close:
        return f"there is no such setting; did you mean {close!r}?"
    return f"there is no such setting; there are: {', '.join(sorted(known))}"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (str, int, float, bool)):
        return repr(value)
    return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else repr(value)
