"""The type of classes of settings: which fields they have, what their names and defaults are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Default, Generation
from kernel_rllib.config.merging import merged
from kernel_rllib.config.name_table import NameTable
from kernel_rllib.errors import UnknownSettingError
from kernel_rllib.nearest import did_you_mean


class SettingsType(type):
    """Collects the fields of a class, and marks objects as complete when they have been made."""

    fields: dict[str, Field[Any]]
    _names: NameTable | None
    _defaults: dict[Generation, dict[str, Any]]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        found: dict[str, Field[Any]] = {}
        for base in reversed(cls.__mro__):
            found.update((key, value) for key, value in vars(base).items() if isinstance(value, Field))
        cls.fields = found
        cls._names = None
        cls._defaults = {}
        for key in namespace.get("defaults", ()):
            if key not in found:
                raise UnknownSettingError(f"{name}.defaults: there is no setting {key!r}{did_you_mean(key, found)}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an object. Its own `__init__` may add attributes; afterwards a name that isn't known is a mistake."""
        made = super().__call__(*args, **kwargs)
        made.__dict__["_is_complete"] = True
        return made

    @property
    def names(cls) -> NameTable:
        """The names of all settings."""
        if cls._names is None:
            rows = [row for base in reversed(cls.__mro__) for row in vars(base).get("rows", ())]
            cls._names = NameTable(cls.fields, rows)
        return cls._names

    def default_values(cls, generation: Generation) -> dict[str, Any]:
        """Return the default of every setting in a generation: not to be changed, only copied."""
        found = cls._defaults.get(generation)
        if found is None:
            found = {name: cls._resolved(field, generation) for name, field in cls.fields.items()}
            cls._defaults[generation] = found
        return found

    def _resolved(cls, field: Field[Any], generation: Generation) -> Any:
        value = field.default.of(generation)
        for base in reversed(cls.__mro__):
            changed = vars(base).get("defaults", {})
            if field.name in changed:
                new = changed[field.name]
                new = new.of(generation) if isinstance(new, Default) else new
                if field.nested is not None:
                    value = {**value, **new}
                else:
                    value = merged(value, new) if field.merge and isinstance(new, Mapping) else new
        return value if field.nested is not None else field.accepted(value, f"{cls.__name__}.defaults")
