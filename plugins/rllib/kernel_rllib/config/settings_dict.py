"""Settings as a dict: written as one by the names of any generation, and read like one under any name."""

from __future__ import annotations

import copy
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any

from kernel_rllib.config.claims import same
from kernel_rllib.config.generations import Generation
from kernel_rllib.config.name_table import Conversion, Path
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings import Origin, Settings

if TYPE_CHECKING:
    from typing_extensions import Self


class DictSettings(Settings):
    """Settings that can be used as a dict."""

    def to_dict(self, generation: Generation = "current") -> dict[str, Any]:
        """Return all settings as a dict, by the names of a generation.

        A value that the generation had no word for is there under its present name, so that nothing is lost. Dicts and
        lists are copies; objects inside of them are not.
        """
        table = type(self).names
        elsewhere = self._written_elsewhere(generation)
        undecided = self._undecided()
        found: dict[str, Any] = {}
        for name in table.names:
            if (name,) not in elsewhere | undecided:
                self._write(name, generation, elsewhere, found)
        for part in table.parts:
            key = part.key(generation)
            inside = getattr(self, part.path[0])
            if key is not None and isinstance(inside, Settings) and self._has_place(part.path, key, generation):
                found[key] = getattr(inside, part.path[1])
        for row in table.conversions:
            if generation in row.generations and undecided.isdisjoint(row.covers):
                said = row.write(self).items()
                found.update((key, value) for key, value in said if self._is_written(row, key, generation))
        found.update((name, self.__dict__[name]) for name in sorted(self.__dict__["_extras"]) if name[:1] != "_")
        return found

    @classmethod
    def default_dict(cls, generation: Generation = "current") -> dict[str, Any]:
        """Return all defaults of a generation, by its names: what `DEFAULT_CONFIG` of it was."""
        settings = cls()
        settings.__dict__["_generation"] = generation
        found = settings.to_dict(generation) | cls._more(generation)
        for name, field in cls.fields.items():
            key = cls.names.key_of(name, generation)
            if field.nested is not None and isinstance(found.get(key), dict):
                found[key] |= field.nested._more(generation)
        return found

    @classmethod
    def _more(cls, generation: Generation) -> dict[str, Any]:
        """Return keys that default dicts of a generation have beyond the settings."""
        found: dict[str, Any] = {}
        for base in reversed(cls.__mro__) if generation == "0.8.5" else ():
            found.update(vars(base).get("more_in_0_8_5", {}))
        return found

    def _is_left_out(self, key: str, generation: Generation) -> bool:
        for base in type(self).__mro__ if generation == "0.8.5" else ():
            if key in vars(base).get("in_all_dicts", ()):
                return False
            if key in vars(base).get("less_in_0_8_5", ()):
                return True
        return False

    def _is_written(self, row: Conversion, key: str, generation: Generation) -> bool:
        return not row.covers or any(len(path) == 1 or self._has_place(path, key, generation) for path in row.covers)

    def _undecided(self) -> set[Path]:
        """Return what an older key says for which a search still has to choose a value."""
        rows = type(self).names.conversions
        return {path for row in rows if not self.__dict__["_extras"].isdisjoint(row.keys) for path in row.covers}

    def _written_elsewhere(self, generation: Generation) -> set[Path]:
        """Return what has a key of its own beside the setting that it is, or is a part of."""
        table = type(self).names
        found = {part.path for part in table.parts if part.key(generation) is not None}
        for row in table.conversions:
            if generation in row.generations and row.complete(self):
                found.update(row.covers)
        return found

    def _has_place(self, path: Path, key: str, generation: Generation) -> bool:
        """Return whether dicts of a generation have the key of a part: always, or where the part was set."""
        if not self._is_left_out(key, generation):
            return True
        inside = getattr(self, path[0])
        return inside.is_set(path[1]) or not inside.is_default(path[1])

    def _write(self, name: str, generation: Generation, elsewhere: set[Path], found: dict[str, Any]) -> None:
        field = type(self).fields[name]
        key = type(self).names.key_of(name, generation)
        value = self.__dict__.get(name, NOT_PROVIDED)
        if value is NOT_PROVIDED:
            value = self._default(field)
        is_in = field.is_in(generation) or any(
            name in vars(base).get("in_all_dicts", ()) for base in type(self).__mro__
        )
        has_place = is_in and not self._is_left_out(key, generation)
        if isinstance(value, DictSettings) and field.nested is not None:
            inside = self._written_part(name, value, generation, elsewhere, has_place)
            if has_place or inside:
                found[key] = inside
        elif has_place or not self.is_default(name):
            value = field.plain(value) if field.plain is not None else value
            found[key] = copy.copy(value) if isinstance(value, (dict, list, set)) else value

    def _written_part(
        self, name: str, part: DictSettings, generation: Generation, elsewhere: set[Path], has_place: bool
    ) -> dict[str, Any]:
        """Return a part as a dict; where dicts of a generation have no place for it, only what isn't said elsewhere."""
        table, inside = type(part).names, part.to_dict(generation)
        for path in self._undecided():
            if path[0] == name and len(path) == 2:
                inside.pop(table.key_of(path[1], generation), None)
        beside = {table.key_of(path[1], generation): path[1] for path in elsewhere if path[0] == name}
        if has_place:  # The value beside it counts: inside is the generation's default, whatever was set.
            usual = type(part).default_values(generation)
            return inside | {key: usual[each] for key, each in beside.items()}
        plain = self.usual_part(name)
        assert isinstance(plain, DictSettings)
        same_as = plain.to_dict(generation)
        return {
            key: value
            for key, value in inside.items()
            if key not in beside and not same(value, same_as.get(key, NOT_PROVIDED))
        }

    # -- reading and writing like a dict -----------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        return self._value_under(key)

    def __setitem__(self, key: str, value: Any) -> None:
        row = type(self).names.find(key)
        if row is not None and not isinstance(row, Conversion) and len(row.path) == 1:
            self._assign(type(self).fields[row.path[0]], value, Origin("item", key))
        else:
            self._change({key: value}, Origin("item"), keep_unknown=self._keeps_unknown)

    @property
    def _keeps_unknown(self) -> bool:
        return True

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and (type(self).names.find(key) is not None or key in self.__dict__["_extras"])

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value under a name of any generation, or `default` where there is no such name."""
        return self._value_under(key) if key in self else default

    def pop(self, key: str, default: Any = None) -> Any:
        """Return the value under a name of any generation. A setting stays; what isn't one is removed."""
        value = self.get(key, default)
        if key in self.__dict__["_extras"]:
            self._check_not_frozen(key)
            self.__dict__["_extras"].discard(key)
            self.__dict__["_origins"].pop(key, None)
            del self.__dict__[key]
        return value

    def update(self, given: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set what a dict says, under names of any generation."""
        self._change({**(given or {}), **more}, Origin("dict"), keep_unknown=self._keeps_unknown)

    def keys(self) -> KeysView[str]:
        """Return the names of all settings."""
        return self.to_dict().keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of all settings."""
        return self.to_dict().values()

    def items(self) -> ItemsView[str, Any]:
        """Return the names of all settings with their values."""
        return self.to_dict().items()

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.set_values().items() if not name.startswith("_"))
        return f"{type(self).__name__}({said})"

    def __len__(self) -> int:
        return len(self.to_dict())

    def __or__(self, given: Mapping[str, Any]) -> Self:
        made = self.copy(copy_frozen=False)
        made._change(given, Origin("dict"), keep_unknown=self._keeps_unknown)
        return made
