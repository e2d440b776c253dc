"""`@dataclass` as in the standard library, for the classes that every process defines when it starts.

The standard decorator compiles up to seven methods of each class when it is defined, which takes about half a
millisecond. A node agent defines a hundred such classes and makes objects of a few; that was 40% of its start. Here a
method is compiled when it is first looked up, and what need not be quick is shared by all. The result is a dataclass
like any other: `fields`, `replace`, `asdict`, `match`, pickle, inheritance and type checkers see no difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable
    from reprlib import recursive_repr
    from types import MemberDescriptorType

    class _Factory:
        def __repr__(self) -> str:
            return "<factory>"

    _FACTORY = _Factory()
    """The default, in signatures, of what has a default factory."""

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> type | Callable[[type], type]:
        """Make `cls` a dataclass; without `cls`, return the decorator that does.

        Everything is as `dataclasses.dataclass` says, but there are only these options, and no `InitVar`.
        """
        return _made(cls, frozen, slots, eq) if cls is not None else lambda cls: _made(cls, frozen, slots, eq)

    def _made(cls: type, frozen: bool, slots: bool, eq: bool) -> type:
        if not cls.__doc__:
            cls.__doc__ = cls.__name__  # else the standard decorator would look up the signature
        inherits_frozen = any(
            hasattr(base, "__dataclass_fields__") and base.__dataclass_params__.frozen for base in cls.__bases__
        )
        # The standard decorator refuses what is not frozen below what is.
        cls = dataclasses.dataclass(
            cls, init=False, repr=False, eq=False, slots=slots, frozen=frozen and inherits_frozen
        )
        params = cls.__dataclass_params__
        params.init, params.repr, params.eq, params.frozen = True, True, eq, frozen
        _add(cls, "__init__", _Uncompiled(cls, "__init__", _init))
        _add(cls, "__repr__", _repr)
        if eq:
            has_hash = cls.__dict__.get("__hash__") is not None
            _add(cls, "__eq__", _Uncompiled(cls, "__eq__", _eq))
            if not has_hash:
                cls.__hash__ = _Uncompiled(cls, "__hash__", _hash) if frozen else None
        if frozen:
            _freeze(cls)
            if slots:
                _add(cls, "__getstate__", _Uncompiled(cls, "__getstate__", _getstate))
                _add(cls, "__setstate__", _Uncompiled(cls, "__setstate__", _setstate))
        return cls

    def _add(cls: type, name: str, value: Any) -> None:
        if name not in cls.__dict__:
            setattr(cls, name, value)

    class _Uncompiled:
        """Takes a method's place until it is first looked up, then puts the method there.

        Two threads at once may both do it: the methods are the same.
        """

        __slots__ = ("_cls", "_name", "_write")

        def __init__(self, cls: type, name: str, write: Callable[[type, dict[str, Any]], str]) -> None:
            self._cls = cls
            self._name = name
            self._write = write

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            cls, name = self._cls, self._name
            names: dict[str, Any] = {"__name__": cls.__module__}
            exec(self._write(cls, names), names)
            method = names[name]
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            if name == "__init__":
                method.__annotations__ = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
                method.__annotations__["return"] = None
            setattr(cls, name, method)
            return method.__get__(instance, owner)

    def _init(cls: type, names: dict[str, Any]) -> str:
        frozen = cls.__dataclass_params__.frozen
        names["_factory_"] = _FACTORY
        lines, positional, named = [], [], []
        for field in dataclasses.fields(cls):
            name, value, parameter = field.name, field.name, field.name
            if field.default_factory is not dataclasses.MISSING:
                names[f"_make_{name}"] = field.default_factory
                parameter = f"{name}=_factory_"
                value = f"_make_{name}() if {name} is _factory_ else {name}" if field.init else f"_make_{name}()"
            elif field.default is not dataclasses.MISSING:
                names[f"_default_{name}"] = field.default
                parameter = f"{name}=_default_{name}"
                if not field.init:
                    value = f"_default_{name}"
            elif not field.init:
                continue
            lines.append(_set(cls, name, value, names) if frozen else f" self.{name} = {value}")
            if field.init:
                (named if field.kw_only else positional).append(parameter)
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        parameters = ["self", *positional, *(["*", *named] if named else [])]
        return f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])

    def _eq(cls: type, names: dict[str, Any]) -> str:
        return (
            "def __eq__(self, other):\n"
            " if other.__class__ is self.__class__:\n"
            f"  return {_compared(cls, 'self')} == {_compared(cls, 'other')}\n"
            " return NotImplemented"
        )

    def _hash(cls: type, names: dict[str, Any]) -> str:
        return f"def __hash__(self):\n return hash({_compared(cls, 'self')})"

    def _compared(cls: type, of: str) -> str:
        return f"({''.join(f'{of}.{field.name}, ' for field in dataclasses.fields(cls) if field.compare)})"

    def _getstate(cls: type, names: dict[str, Any]) -> str:
        return f"def __getstate__(self):\n return [{', '.join(f'self.{f.name}' for f in dataclasses.fields(cls))}]"

    def _setstate(cls: type, names: dict[str, Any]) -> str:
        fields = enumerate(dataclasses.fields(cls))
        lines = [_set(cls, field.name, f"state[{index}]", names) for index, field in fields]
        return "def __setstate__(self, state):\n" + "\n".join(lines or [" pass"])

    def _set(cls: type, name: str, value: str, names: dict[str, Any]) -> str:
        """Return the line that sets a field of a frozen object: quickest by its slot, if it has one."""
        slot = getattr(cls, name, None)
        if isinstance(slot, MemberDescriptorType):
            names[f"_set_{name}"] = slot.__set__
            return f" _set_{name}(self, {value})"
        names["_set_"] = object.__setattr__
        return f" _set_(self, {name!r}, {value})"

    @recursive_repr()
    def _repr(self: Any) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def _freeze(cls: type) -> None:
        names = frozenset(field.name for field in dataclasses.fields(cls))

        def __setattr__(self: Any, name: str, value: Any) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self: Any, name: str) -> None:
            if type(self) is cls or name in names:
                raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        _add(cls, "__setattr__", __setattr__)
        _add(cls, "__delattr__", __delattr__)
