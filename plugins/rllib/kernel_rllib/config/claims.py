"""Read a dict of settings: each value with the place that it is for and the name that it was given under.

A dict may mix names of all generations. Two that stand for one setting must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import GENERATIONS, Generation
from kernel_rllib.config.name_table import Conversion, Name, NameTable, Path
from kernel_rllib.config.search_spaces import is_search_space
from kernel_rllib.config.sentinels import is_deprecated_value
from kernel_rllib.errors import ConfigError


class Claim(NamedTuple):
    """A value for a setting, or for a part of one."""

    value: Any
    spelling: str
    wins: bool


class Reading:
    """Reads a dict for one class of settings."""

    def __init__(self, kind: Any, given: Mapping[str, Any], owner: str, generation: Generation) -> None:
        """Read a dict.

        Args:
            kind: The class of settings, with its `fields` and `names`.
            given: The dict.
            owner: The owner of the settings, with which errors begin.
            generation: The generation of the settings, whose own names are never taken for leftovers of an older one.

        Raises:
            ConfigError: Two names of one setting disagree.
        """
        self.kind = kind
        self.given = given
        self.fields: Mapping[str, Field[Any]] = kind.fields
        self.table: NameTable = kind.names
        self.owner = owner
        self.generation = generation
        self.claims: dict[Path, Claim] = {}
        self.unknown: dict[str, Any] = {}
        converted: set[int] = set()
        for key, value in given.items():
            if not isinstance(key, str):
                raise ConfigError(f"{owner}: {key!r} is no name of a setting; names are text")
            row = self.table.find(key)
            if row is None:
                self.unknown[key] = value
            elif is_deprecated_value(value) and self._is_leftover(key, row):
                continue
            elif isinstance(row, Name):
                self._expand(row.path, value, key, row.wins and row.path != (key,))
            elif id(row) not in converted:
                converted.add(id(row))
                self._convert(row, given)
        for path in list(self.claims):
            whole = self.claims.get(path[:1])
            if len(path) > 1 and whole is not None and whole.wins:
                del self.claims[path]

    def _is_leftover(self, key: str, row: Name | Conversion) -> bool:
        """Return whether a key is not one of this generation: then -1 says that it was not set."""
        if isinstance(row, Conversion) or self.table.is_old(key, self.generation):
            return True
        return row.path == (key,) and not self.fields[key].is_in(self.generation)

    def _convert(self, row: Conversion, given: Mapping[str, Any]) -> None:
        there = {key: given[key] for key in row.keys if key in given and not is_deprecated_value(given[key])}
        undecided = {key: value for key, value in there.items() if is_search_space(value)}
        if undecided:  # Kept as it is: its meaning is known only when a search has chosen.
            self.unknown.update(undecided)
            return
        try:
            said = row.read(there, given)
        except ConfigError as error:
            raise type(error)(f"{self.owner}: {error}") from None
        for place, value in said.items():
            path, spelling = tuple(place.split("/")), " and ".join(there)
            if row.wins:
                self._claim(path, Claim(value, spelling, True))
            else:
                self._expand(path, value, spelling, False)

    def _expand(self, path: Path, value: Any, spelling: str, wins: bool) -> None:
        """Claim a value, or each part of a dict that is merged into what is there."""
        field = self.fields[path[0]]
        if len(path) == 1 and isinstance(value, Mapping) and not is_search_space(value):
            if field.nested is not None:
                inner = Reading(field.nested, value, f"{self.owner}: {spelling}", self.generation)
                for part, claim in inner.claims.items():
                    self._claim(path + part, claim._replace(spelling=f"{spelling}/{claim.spelling}", wins=wins))
                for key, unknown in inner.unknown.items():
                    self._claim((*path, key), Claim(unknown, f"{spelling}/{key}", wins))
                return
            if field.merge:
                for key, part_value in value.items():
                    self._claim((*path, key), Claim(part_value, f"{spelling}/{key}", wins))
                return
        self._claim(path, Claim(value, spelling, wins))

    def _claim(self, path: Path, claim: Claim) -> None:
        other = self.claims.get(path)
        if other is None or (claim.wins and not other.wins):
            self.claims[path] = claim
        elif (other.wins and not claim.wins) or self._agree(path, other, claim) or self._is_untouched(claim):
            return
        elif self._is_untouched(other):
            self.claims[path] = claim
        else:
            raise ConfigError(
                f"{self.owner}: {other.spelling}={other.value!r} and {claim.spelling}={claim.value!r} are two names of "
                f"{'/'.join(map(str, path))} and disagree; give one of them"
            )

    def _agree(self, path: Path, one: Claim, other: Claim) -> bool:
        """Return whether two values are the same, be they written in different ways."""
        if same(one.value, other.value):
            return True
        field = self.fields[path[0]]
        if len(path) > 1 or field.nested is not None:
            return False
        return same(field.accepted(one.value, self.owner), field.accepted(other.value, self.owner))

    def _is_untouched(self, claim: Claim) -> bool:
        """Return whether a dict is a copy of all defaults of a generation, and this value is still one of them."""
        for generation in GENERATIONS:
            defaults: Any = self.kind.default_dict(generation)
            if self.given.keys() >= defaults.keys():
                for key in claim.spelling.split("/"):
                    defaults = defaults.get(key) if isinstance(defaults, Mapping) else None
                if same(defaults, claim.value):
                    return True
        return False


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; of arrays, whether all of their elements are."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    try:
        equal = one == other
        return bool(equal.all()) if hasattr(equal, "all") else bool(equal)
    except Exception:  # A user's class may raise anything in a comparison.
        return False
