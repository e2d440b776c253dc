"""Take checked values out of a document: each error says where, what was expected, and the nearest name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_launcher.config.document import ClusterDocument, KeyPath
from kernel_spec.errors import OptionError
from kernel_spec.nearest import nearest


class FileSection:
    """A mapping within a document, at a path."""

    def __init__(self, document: ClusterDocument, path: KeyPath = ()) -> None:
        self._document = document
        self._path = path
        found: Any = document.values
        for word in path:
            found = found.get(word) if isinstance(found, Mapping) else found[word]
        if found is None:
            found = {}
        if not isinstance(found, Mapping):
            raise self.wrong((), f"must be a mapping of keys to values, not {found!r}")
        self.values: Mapping[str, Any] = found

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def wrong(self, path: KeyPath, problem: str) -> OptionError:
        """Return the error for what is at a path below this section."""
        whole = (*self._path, *path)
        name = ".".join(str(word) for word in whole) or "the file"
        return OptionError(f"{self._document.where(whole)}: {name} {problem}")

    def check_keys(self, known: Iterable[str], what: str) -> None:
        """Raise OptionError for a key that is not one of `known`."""
        names = list(known)
        for key in self.values:
            if key not in names:
                near = nearest(key, names)
                hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(names))}"
                raise OptionError(f"{self._document.where((*self._path, key))}: {key!r} is no key of {what}; {hint}")

    def section(self, key: str) -> FileSection:
        """Return the mapping at a key; an empty one where there is none."""
        return FileSection(self._document, (*self._path, key))

    def sections(self) -> dict[str, FileSection]:
        """Return each value of this section, all of which must be mappings, by its key."""
        return {key: self.section(key) for key in self.values}

    def text(self, key: str, default: str = "") -> str:
        """Return a text. A number counts as what was written."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, (Mapping, list, bool)):
            raise self.wrong((key,), f"must be a text, not {value!r}")
        return str(value)

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong((key,), f"must be true or false, not {value!r}")
        return value

    def count(self, key: str, default: int | None = None) -> int | None:
        """Return a whole number, zero or more."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong((key,), f"must be a whole number, zero or more, not {value!r}")
        return value

    def number(self, key: str, default: float) -> float:
        """Return a number, zero or more."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
            raise self.wrong((key,), f"must be a number, zero or more, not {value!r}")
        return float(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.wrong((key,), f"must be a list, not {value!r}")
        for place, each in enumerate(value):
            if not isinstance(each, (str, int, float)) or isinstance(each, bool):
                raise self.wrong((key, place), f"must be a text, not {each!r}")
        return tuple(str(each) for each in value)

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping as it is."""
        return dict(self.section(key).values)

    def amounts(self, key: str) -> dict[str, float]:
        """Return a mapping of resources to amounts."""
        section = self.section(key)
        return {name: section.number(name, 0.0) for name in section.values}

    def words(self, key: str) -> dict[str, str]:
        """Return a mapping of texts to texts."""
        section = self.section(key)
        return {name: section.text(name) for name in section.values}

    def local_file(self, path: str) -> str:
        """Return a file of this machine as an absolute path: `~` is the user's, other paths begin where the file is."""
        here = Path(self._document.name).absolute().parent
        return os.path.normpath(here / os.path.expanduser(os.path.expandvars(path)))
