"""What is installed: the entry points of the distributions on `sys.path`.

Every agent and every command looks here when it starts. So the files are read directly, in 2 ms: importing
`importlib.metadata`, or what keeps a cache of its answers, costs ten times as much before the first file is opened.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder

_INFOS = (".dist-info", ".egg-info")


def entry_points(group: str) -> list[tuple[str, str]]:
    """Return `(name, "module" or "module:attribute")` of every entry point in `group`, each once, by name.

    As `importlib.metadata` has it: of two distributions of one name the one that is earlier on `sys.path` counts. It is
    asked where there is more to ask than directories: an archive on `sys.path`, an importer with its own distributions.
    """
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return _asked(group)
    try:
        files = list(_files())
    except NotADirectoryError:
        return _asked(group)
    return sorted({point for text in map(_read, files) if group in text for point in _points(text, group)})


def _asked(group: str) -> list[tuple[str, str]]:
    from importlib import metadata  # see above

    return sorted({(point.name, point.value) for point in metadata.entry_points(group=group)})


def _files() -> Iterator[str]:
    """Yield where the entry points of each distribution are; raise NotADirectoryError for an archive."""
    seen = set()
    for path in dict.fromkeys(sys.path):
        if path.endswith(".egg"):
            raise NotADirectoryError(path)
        try:
            names = os.listdir(path or ".")
        except NotADirectoryError:
            raise
        except OSError:
            continue
        for name in names:
            if name.endswith(_INFOS):
                distribution = re.sub("[-_.]+", "-", os.path.splitext(name)[0].partition("-")[0]).lower()
                if distribution not in seen:
                    seen.add(distribution)
                    yield os.path.join(path, name, "entry_points.txt")


def _read(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read()
    except OSError:
        return ""  # most distributions have none


def _points(text: str, group: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
