"""Objects made of settings: they keep what was set and by whom, know the defaults of each generation, and act as dicts.

`AlgorithmConfig` is one, and so are its parts `model` and `replay_buffer_config`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kernel_rllib.config.claims import Claim, Reading, same
from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Generation
from kernel_rllib.config.merging import is_new_type, merged
from kernel_rllib.config.name_table import Conversion, Name, Path
from kernel_rllib.config.search_spaces import is_search_space
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings_type import SettingsType
from kernel_rllib.config.warnings_to_users import warn
from kernel_rllib.errors import ConfigError, FrozenConfigError, NoSuchSettingError, UnknownSettingError
from kernel_rllib.nearest import did_you_mean
from kernel_spec.nearest import nearest

if TYPE_CHECKING:
    from typing_extensions import Self


_SHOWN = 5
"""So many of the older names in a dict are listed by a warning."""


class Origin(NamedTuple):
    """The origin of a value: `by`, the call or dict that set it (".training()", "dict"), and the name in it."""

    by: str
    spelling: str = ""


class Settings(metaclass=SettingsType):
    """An object made of the fields of its class."""

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of inherited settings that are others in this class; a dict is merged into the inherited one."""
    rows: ClassVar[tuple[Name | Conversion, ...]] = ()
    """Older names beyond those that fields declare."""
    more_in_0_8_5: ClassVar[Mapping[str, Any]] = {}
    """Keys that the default dict of 0.8.5 has beyond the settings, with their values."""
    in_all_dicts: ClassVar[tuple[str, ...]] = ()
    """Settings that dicts of all generations have for this class, although they don't for others."""
    less_in_0_8_5: ClassVar[tuple[str, ...]] = ()
    """Keys that dicts of 0.8.5 have only where they were set."""
    gone: ClassVar[Mapping[str, str]] = {}
    """Names that are gone for good, and what there is instead."""

    def __init__(self) -> None:
        self.__dict__.update(
            _generation="current", _origins={}, _extras=set(), _is_frozen=False, _is_complete=False, _title=""
        )

    @property
    def generation(self) -> Generation:
        """The generation whose defaults and customs hold here."""
        return self.__dict__["_generation"]  # type: ignore[no-any-return]

    @property
    def title(self) -> str:
        """The name of this object in errors: "PPOConfig", "PPOConfig.model"."""
        return self.__dict__["_title"] or type(self).__name__

    # -- who has set what --------------------------------------------------------------------------------------------

    def origin(self, name: str) -> Origin | None:
        """Return the origin of a value, or None if it was not set."""
        return self.__dict__["_origins"].get(name)  # type: ignore[no-any-return]

    def is_set(self, name: str) -> bool:
        """Return whether a value, or a part of it, was set, be it to the default."""
        return name in self.__dict__["_origins"]

    def is_default(self, name: str) -> bool:
        """Return whether a value is the default."""
        value = self.__dict__.get(name, NOT_PROVIDED)
        if value is NOT_PROVIDED:
            return True
        if isinstance(value, Settings) and type(self).fields[name].nested is not None:
            return bool(value == self.usual_part(name))
        return same(value, type(self).default_values(self.generation)[name])

    def usual_part(self, name: str) -> Settings:
        """Return the default of a part."""
        return self._new_part(type(self).fields[name], type(self).default_values(self.generation)[name] or {})

    # -- one value ---------------------------------------------------------------------------------------------------

    def _default(self, field: Field[Any]) -> Any:
        """Return the default of a field; what can be changed in place becomes this object's own."""
        value = type(self).default_values(self.generation)[field.name]
        if field.nested is not None:
            value = self.usual_part(field.name)
            value._set_frozen(self.__dict__["_is_frozen"])
            self.__dict__[field.name] = value
        elif isinstance(value, (dict, list, set)):
            value = self.__dict__[field.name] = copy.deepcopy(value)
        return value

    def _new_part(self, field: Field[Any], values: Mapping[str, Any]) -> Settings:
        assert field.nested is not None
        part: Settings = field.nested()
        part.__dict__.update(_generation=self.generation, _title=f"{self.title}.{field.name}")
        part._change(values, None)
        return part

    def _assign(self, field: Field[Any], value: Any, origin: Origin | None) -> None:
        """Check a value and put it in the place of what is there."""
        self._check_not_frozen(field.name)
        value = self._as_part(field, value) if field.nested is not None else field.accepted(value, self.title)
        if origin is not None and origin.by == "dict" and not self.is_set(field.name) and self._has(field, value):
            return  # Dicts often begin as a copy of all defaults, so a default in one was not set.
        self.__dict__[field.name] = value
        self._note(field.name, origin)

    def _has(self, field: Field[Any], value: Any) -> bool:
        present = self.__dict__.get(field.name, NOT_PROVIDED)
        return same(
            value, type(self).default_values(self.generation)[field.name] if present is NOT_PROVIDED else present
        )

    def _set_attribute(self, field: Field[Any], value: Any) -> None:
        self._assign(field, value, Origin("attribute", field.name))

    def _as_part(self, field: Field[Any], value: Any) -> Any:
        """Return what is kept of a value for a field that holds settings of its own."""
        assert field.nested is not None
        if is_search_space(value):
            return value
        if isinstance(value, Settings):
            value = value.set_values()
        if value is not None and not isinstance(value, Mapping):
            raise ConfigError(
                f"{self.title}: {field.name} is {value!r}, but must be a dict or a {field.nested.__name__}"
            )
        part = self.usual_part(field.name)
        part._change(value or {}, Origin("attribute", field.name))
        return part

    def _note(self, name: str, origin: Origin | None) -> None:
        if origin is not None:
            is_making = not self.__dict__["_is_complete"]
            self.__dict__["_origins"][name] = Origin(f"default of {type(self).__name__}") if is_making else origin

    def _check_not_frozen(self, name: str) -> None:
        if self.__dict__["_is_frozen"]:
            raise FrozenConfigError(
                f"{self.title} is frozen: {name} can't be set any more, as an algorithm uses it. "
                "Change a copy: config.copy(copy_frozen=False)"
            )

    # -- many values -------------------------------------------------------------------------------------------------

    def _change(self, given: Mapping[str, Any], origin: Origin | None, *, keep_unknown: bool = True) -> None:
        """Set what a dict says, under names of any generation; dicts inside are merged into what is there.

        Raises:
            ConfigError: A value can't be, or two names of a setting disagree.
            UnknownSettingError: A name isn't known, and unknown ones aren't kept.
        """
        fields = type(self).fields
        reading = Reading(type(self), given, self.title, self.generation)
        unknown = {
            name: value for name, value in reading.unknown.items() if not self._says_nothing(name, value, keep_unknown)
        }
        for name in unknown:
            self._check_unknown(name, keep_unknown, origin)
        if origin is not None and self.generation in ("2.x", "current"):
            self._warn_of_old_names(given)
        parts: dict[str, dict[Path, Claim]] = {}
        for path, claim in reading.claims.items():
            if len(path) == 1:
                self._assign(fields[path[0]], claim.value, origin and origin._replace(spelling=claim.spelling))
            else:
                parts.setdefault(path[0], {})[path[1:]] = claim
        for name, claims in parts.items():
            self._merge(fields[name], claims, origin)
        for name in self.__dict__["_extras"] & (given.keys() - unknown.keys()):
            self.__dict__["_extras"].discard(name)  # A search has chosen the value for which the older key was kept.
            self.__dict__.pop(name, None)
        for name, value in unknown.items():
            self._keep(name, value, origin)

    def _merge(self, field: Field[Any], claims: Mapping[Path, Claim], origin: Origin | None) -> None:
        self._check_not_frozen(field.name)
        given: dict[str, Any] = {}
        for path, claim in claims.items():
            inside = given
            for key in path[:-1]:
                inside = inside.setdefault(key, {})
            inside[path[-1]] = claim.value
        first = next(iter(claims.values())).spelling
        origin = origin and origin._replace(spelling=first)
        present = getattr(self, field.name)
        if is_search_space(present):
            raise ConfigError(f"{self.title}: {field.name} is a search space, so {first} can't be set inside of it")
        if isinstance(present, Settings) and field.nested is not None:
            present._change(given, origin)
            if present.__dict__["_origins"]:
                self._note(field.name, origin)
        elif isinstance(present, Settings):  # a config of the user's, which stays as it is
            made = present.copy(copy_frozen=False)
            made._change(given, origin)
            self._assign(field, made, origin)
        elif isinstance(present, Mapping) and not is_new_type(present, given):
            self._assign(field, merged(present, given), origin)
        else:
            self._assign(field, given, origin)

    def _says_nothing(self, name: str, value: Any, keep_unknown: bool) -> bool:
        """Return whether older dicts have a key only to show that it was not set."""
        return is_deprecated_value(value) and (not keep_unknown or name in self.gone)

    def _check_unknown(self, name: str, keep: bool, origin: Origin | None) -> None:
        if name in self.__dict__["_extras"] or type(self).names.find(name) is not None:
            return
        if not keep:
            raise UnknownSettingError(f"{self.title} has no setting {name!r}{self._hint(name)}")
        self._check_not_frozen(name)
        close = nearest(name, type(self).names.by_key, 0.75) if origin is not None else None
        if close:
            warn(f"{self.title} has no setting {name!r}, which is kept as yours; there is {close!r}", UserWarning)

    def _warn_of_old_names(self, given: Mapping[str, Any]) -> None:
        table, older = type(self).names, []
        for key, value in given.items():
            row = table.find(key)
            is_older = isinstance(row, Name) and table.is_old(key, self.generation) and table.is_old(key, "current")
            if isinstance(row, Name) and is_older and not is_deprecated_value(value):
                older.append(f"{key} (now {'/'.join(row.path)})")
        if older:
            more = f" and {len(older) - _SHOWN} more" if len(older) > _SHOWN else ""
            warn(f"{self.title}: older names of settings: {', '.join(older[:_SHOWN])}{more}", DeprecationWarning)

    def _keep(self, name: str, value: Any, origin: Origin | None) -> None:
        self._check_not_frozen(name)
        if hasattr(type(self), name):
            raise ConfigError(f"{self.title}: {name!r} can't be a setting of yours, as there is a method of that name")
        self.__dict__[name] = value
        self.__dict__["_extras"].add(name)
        self._note(name, origin)

    def _hint(self, name: str) -> str:
        gone = self.gone.get(name)
        sections = (field.section for field in type(self).fields.values())
        known = [*type(self).names.by_key, *self.__dict__["_extras"], *sections]
        return f"; {gone}" if gone else did_you_mean(name, known)

    # -- as attributes -----------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_extras" not in self.__dict__:
            raise AttributeError(name)
        if type(self).names.find(name) is not None:
            return self._value_under(name)
        raise NoSuchSettingError(f"{self.title} has no attribute {name!r}{'' if name[0] == '_' else self._hint(name)}")

    def __setattr__(self, name: str, value: Any) -> None:
        known = getattr(type(self), name, None)
        if isinstance(known, (Field, property)):
            object.__setattr__(self, name, value)
        elif type(self).names.find(name) is not None:
            self._change({name: value}, Origin("attribute"))
        elif name.startswith("_") or name in self.__dict__["_extras"] or not self.__dict__["_is_complete"]:
            self._keep(name, value, Origin("attribute", name))
        else:
            self._check_not_frozen(name)
            raise NoSuchSettingError(
                f"{self.title} has no setting {name!r}{self._hint(name) or ';'} "
                f"Add one of your own by update_from_dict({{{name!r}: ...}})"
            )

    def _value_under(self, key: str) -> Any:
        """Return the value that a key of any generation stands for. Raises `KeyError` where there is none."""
        row = type(self).names.find(key)
        if row is None:
            if key in self.__dict__["_extras"]:
                return self.__dict__[key]
            raise UnknownSettingError(f"{self.title} has no setting {key!r}{self._hint(str(key))}")
        if isinstance(row, Conversion):
            return row.write(self).get(key)
        value = getattr(self, row.path[0])
        return value if len(row.path) == 1 or value is None else value[row.path[1]]

    # -- as a whole --------------------------------------------------------------------------------------------------

    def own_names(self) -> list[str]:
        """Return the names that are no settings, and were kept for code of the user's to read."""
        return sorted(name for name in self.__dict__["_extras"] if name[:1] != "_")

    def set_values(self) -> dict[str, Any]:
        """Return what was set, by anybody, or changed in place, without the defaults."""
        names = [name for name in type(self).fields if self.is_set(name) or not self.is_default(name)]
        return {name: self.__dict__[name] for name in [*names, *sorted(self.__dict__["_extras"])]}

    def copy(self, copy_frozen: bool | None = None) -> Self:
        """Return a deep copy: frozen (True), not frozen (False), or as this one is (None).

        What can't be copied, such as a lock or an actor, is shared by both.
        """
        made = type(self).__new__(type(self))
        memo: dict[int, Any] = {id(self): made}
        made.__dict__.update((name, _deep_copy(value, memo)) for name, value in self.__dict__.items())
        if copy_frozen is not None:
            made._set_frozen(copy_frozen)
        return made

    def freeze(self) -> None:
        """Let nothing be set any more, neither here nor in parts that are settings."""
        self._set_frozen(True)

    @property
    def is_frozen(self) -> bool:
        """Whether nothing can be set any more."""
        return bool(self.__dict__["_is_frozen"])

    def _set_frozen(self, frozen: bool) -> None:
        self.__dict__["_is_frozen"] = frozen
        for value in self.__dict__.values():
            if isinstance(value, Settings):
                value._set_frozen(frozen)

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings) or type(self) is not type(other):
            return NotImplemented
        names = [*type(self).fields, *(self.__dict__["_extras"] | other.__dict__["_extras"])]
        missing = object()
        return all(same(getattr(self, name, missing), getattr(other, name, missing)) for name in names)

    __hash__ = None  # type: ignore[assignment]


def _deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # A user's object that can't be copied may raise anything.
        return value
