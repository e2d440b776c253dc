"""Which files are left out of a copy: `rsync_exclude` and `rsync_filter`, with rsync's meaning of patterns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernel_spec.dataclass import dataclass


class Patterns:
    """Tells whether a path is left out.

    `exclude` holds for the whole copy. `filters` are names of files, such as .gitignore: each that lies in a copied
    directory has a pattern on each line, for what is below that directory. A pattern that begins with / is for paths
    from there; another for the end of a path; one that ends with / for directories alone. `*` and `?` match anything
    but /, `**` matches / too.
    """

    def __init__(self, exclude: Sequence[str] = (), filters: Sequence[str] = ()) -> None:
        self._exclude = _compiled(exclude)
        self._filters = tuple(filters)
        self._of: dict[str, tuple[_Pattern, ...]] = {}

    def enter(self, directory: Path, path: str) -> None:
        """Read the filter files of a directory, which is at `path` within the copy ("" for its top)."""
        lines: list[str] = []
        for name in self._filters:
            file = directory / name
            if file.is_file():
                lines += file.read_text(errors="replace").splitlines()
        if lines:
            self._of[path] = _compiled(line.strip() for line in lines if line.strip() and line.strip()[0] not in "#;")

    def leaves_out(self, path: str, is_directory: bool) -> bool:
        """Return whether a path within the copy, such as "src/a.py", is left out."""
        if _matches(self._exclude, path, is_directory):
            return True
        for directory, patterns in self._of.items():
            below = path[len(directory) + 1 :] if directory and path.startswith(f"{directory}/") else path
            if (not directory or below != path) and _matches(patterns, below, is_directory):
                return True
        return False


def _matches(patterns: Iterable[_Pattern], path: str, is_directory: bool) -> bool:
    return any(
        pattern.expression.search(f"/{path}") for pattern in patterns if is_directory or not pattern.only_directories
    )


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What finds a pattern in "/PATH", and whether it is for directories alone."""

    expression: re.Pattern[str]
    only_directories: bool


def _compiled(patterns: Iterable[str]) -> tuple[_Pattern, ...]:
    return tuple(_pattern(pattern.removeprefix("- ")) for pattern in patterns)


@functools.lru_cache(maxsize=4096)
def _pattern(text: str) -> _Pattern:
    found = []
    for piece in re.findall(r"\*\*|\*|\?|\[[^\]]+\]|[^*?\[]+|\[", text.strip("/")):
        meaning = {"**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
        if meaning is None and piece.startswith("[") and piece.endswith("]"):
            meaning = f"[^{piece[2:]}" if piece[1] == "!" else piece
        found.append(re.escape(piece) if meaning is None else meaning)
    begin = "^/" if text.startswith("/") else "^" if text.startswith("**") else "/"
    return _Pattern(re.compile(f"{begin}{''.join(found)}$"), text.endswith("/"))
