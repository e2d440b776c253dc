"""Find a setting by any of its names, and the name that a dict of each generation has for it. The names: `names.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import GENERATIONS, Generation

Path = tuple[str, ...]
"""The place of a value: `("lr",)`, or `("model", "fcnet_hiddens")` for one inside of another."""


class Name:
    """One setting under the names that it had."""

    __slots__ = ("also", "in_current", "in_dicts", "path", "wins")

    def __init__(
        self,
        path: str,
        in_0_8_5: str = "",
        in_1_x: str = "",
        in_2_x: str = "",
        in_current: str = "",
        *,
        also: tuple[str, ...] = (),
        wins: bool = False,
    ) -> None:
        """Make a row of the table.

        Args:
            path: The setting, or `setting/part` where a top-level key was, or is, a part of another setting.
            in_0_8_5: Its key in dicts of that generation. Empty: as it is today, or none.
            in_1_x: The key of that generation. Empty: the one before. "-": it was no key of its own any more.
            in_2_x: Likewise.
            in_current: Its key in today's dicts. Empty: the name of the setting.
            also: Further names that are understood.
            wins: Whether a value under an older name holds against one under the current name in the same dict.
        """
        self.path: Path = tuple(path.split("/"))
        self.in_dicts = (in_0_8_5, in_1_x, in_2_x)
        self.in_current = in_current
        self.also = also
        self.wins = wins

    @property
    def keys(self) -> Iterator[str]:
        """Every name that is understood."""
        yield from (key for key in dict.fromkeys((*self.in_dicts, self.in_current, *self.also)) if key not in ("", "-"))

    def key(self, generation: Generation) -> str | None:
        """Return the key in dicts of a generation; None for a part that has no key of its own there."""
        key = self.in_current
        if generation != "current":
            said = [key for key in self.in_dicts[: GENERATIONS.index(generation) + 1] if key]
            key = said[-1] if said else ""
        if key and key != "-":
            return key
        return self.path[0] if len(self.path) == 1 else None


class Conversion:
    """Keys of older dicts that say in another way what settings say today."""

    __slots__ = ("complete", "covers", "generations", "keys", "read", "wins", "write")

    def __init__(
        self,
        keys: tuple[str, ...],
        read: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, Any]],
        *,
        write: Callable[[Any], Mapping[str, Any]] = lambda settings: {},
        covers: tuple[str, ...] = (),
        complete: Callable[[Any], bool] = lambda settings: True,
        generations: tuple[Generation, ...] = (),
        wins: bool = False,
    ) -> None:
        """Make a conversion.

        Args:
            keys: The older keys.
            read: Given those of the keys that are there with their values, and the whole dict, returns values by path
                (`"lr"`, `"model/use_lstm"`).
            write: Given the settings, returns the keys with their values.
            covers: The paths of what is not written under its own name beside these keys.
            complete: Whether the keys can say what the settings are; where they can't, both are written.
            generations: The generations whose dicts have the keys. In others they are only read.
            wins: Whether a value under an older name holds; see `Name`.
        """
        self.keys = keys
        self.read = read
        self.write = write
        self.covers: tuple[Path, ...] = tuple(tuple(path.split("/")) for path in covers)
        self.complete = complete
        self.generations = generations
        self.wins = wins


class NameTable:
    """All names of one class of settings."""

    def __init__(self, fields: Mapping[str, Field[Any]], rows: Iterable[Name | Conversion]) -> None:
        """Index those rows whose settings are there, and the fields by their own names, which always come first."""
        self.names: dict[str, Name] = {}
        self.parts: list[Name] = []
        self.conversions: list[Conversion] = []
        self.by_key: dict[str, Name | Conversion] = {}
        for row in rows:
            if isinstance(row, Name) and row.path[0] in fields:
                self._add_name(row)
            elif isinstance(row, Conversion) and all(path[0] in fields for path in row.covers):
                self.conversions.append(row)
                self.by_key.update(dict.fromkeys(row.keys, row))
        for field in fields.values():
            row = self.names.setdefault(field.name, Name(field.name, *field.old[:1]))
            self.by_key.update(dict.fromkeys(field.old, row))
        self.by_key.update(self.names)

    def _add_name(self, row: Name) -> None:
        if len(row.path) == 1:
            self.names[row.path[0]] = row
        else:
            self.parts.append(row)
        self.by_key.update(dict.fromkeys(row.keys, row))

    def find(self, key: str) -> Name | Conversion | None:
        """Return what a key stands for."""
        return self.by_key.get(key)

    def key_of(self, field: str, generation: Generation) -> str:
        """Return the key of a setting in dicts of a generation."""
        return self.names[field].key(generation) or field

    def is_old(self, key: str, generation: Generation) -> bool:
        """Return whether a key that is understood is not one that dicts of a generation have."""
        row = self.by_key[key]
        if isinstance(row, Conversion):
            return generation not in row.generations
        return key != row.key(generation) and row.path != (key,)
