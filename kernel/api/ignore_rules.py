"""Decide which files a `.gitignore` excludes, by git's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kernel_spec.dataclass import dataclass

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "\\x21-\\x7e", "lower": "a-z", "print": "\\x20-\\x7e", "punct": "!-/:-@\\[-`{-~", "space": " \\t-\\r",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
"""Characters of a class `[:name:]`, for a bracket expression of a regular expression."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. With `keeps` it includes what earlier rules exclude; with `directories` it matches directories only."""

    pattern: re.Pattern[str]
    keeps: bool
    directories: bool


class Rules:
    """The rules of one file, which hold below its `directory`, relative to the top ("" at the top)."""

    def __init__(self, lines: Iterable[str], directory: str = "") -> None:
        self._directory = f"{directory}/" if directory else ""
        self._rules = [rule for rule in map(_parse, lines) if rule is not None]

    def ignores(self, path: str, is_directory: bool) -> bool | None:
        """Return whether the last rule that matches `path`, relative to the top, excludes it; None if no rule matches.

        The caller must exclude everything in an excluded directory.
        """
        if not path.startswith(self._directory):
            return None
        below = path[len(self._directory) :]
        for rule in reversed(self._rules):
            if (is_directory or not rule.directories) and rule.pattern.fullmatch(below):
                return not rule.keeps
        return None


def is_ignored(layers: Sequence[Rules], path: str, is_directory: bool) -> bool:
    """Return whether `path` is excluded; later `layers` take precedence."""
    for rules in reversed(layers):
        ignored = rules.ignores(path, is_directory)
        if ignored is not None:
            return ignored
    return False


def _parse(line: str) -> Rule | None:
    line = line.rstrip("\r\n")
    if line.startswith("#"):
        return None
    while line.endswith(" ") and not _is_escaped(line, len(line) - 1):
        line = line[:-1]
    keeps = line.startswith("!")
    line = line[keeps:]
    directories = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    anchored = "/" in line
    body = _expression(line.removeprefix("/"))
    if body is None:
        return None
    return Rule(re.compile(body if anchored else f"(?:.*/)?{body}", re.DOTALL), keeps, directories)


def _is_escaped(text: str, place: int) -> bool:
    before = text[:place]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1


def _expression(pattern: str) -> str | None:
    """Convert a pattern into a regular expression; return None for a pattern that can't match."""
    found = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if character == "*":
            end = place
            while pattern[end : end + 1] == "*":
                end += 1
            alone = place == 0 or pattern[place - 1] == "/"
            if end - place >= 2 and alone and pattern[end : end + 1] == "/":
                found.append("(?:.*/)?")
                end += 1
            elif end - place >= 2 and alone and end == len(pattern):
                found.append(".+" if place else ".*")
            else:
                found.append("[^/]*")
            place = end
        elif character == "?":
            found.append("[^/]")
            place += 1
        elif character == "[":
            between = _brackets(pattern, place + 1)
            if between is None:
                return None
            expression, place = between
            found.append(expression)
        else:
            if character == "\\":
                place += 1
                if place == len(pattern):
                    return None
            found.append(re.escape(pattern[place]))
            place += 1
    return "".join(found)


def _brackets(pattern: str, place: int) -> tuple[str, int] | None:
    """Convert the bracket expression whose content starts at `place`; return it and the place after it."""
    refused = pattern[place : place + 1] in ("!", "^")
    place += refused
    parts: list[str] = []
    first = True
    while place < len(pattern) and (first or pattern[place] != "]"):
        first = False
        name = re.compile(r"\[:(\w*):\]").match(pattern, place)
        if name is not None:
            if name[1] not in _CLASSES:
                return None
            parts.append(_CLASSES[name[1]])
            place = name.end()
            continue
        low, place = _character(pattern, place)
        parts.append(re.escape(low))
        if pattern[place : place + 1] == "-" and pattern[place + 1 : place + 2] not in ("", "]"):
            high, place = _character(pattern, place + 1)
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
    if place >= len(pattern):
        return None
    inside = "".join(parts)
    if refused:
        return f"(?!/)[^{inside}]" if inside else "[^/]", place + 1
    return f"(?!/)[{inside}]" if inside else "(?!)", place + 1


def _character(pattern: str, place: int) -> tuple[str, int]:
    if pattern[place] == "\\" and place + 1 < len(pattern):
        place += 1
    return pattern[place], place + 1
