"""Refuse uses of a reference as if it were its value, with a message that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kernel_spec.errors import ReferenceUseError

REMEDY = (
    "a reference stands for a value that may not be there yet. kernel.get(ref) returns the value; a task that is given "
    "ref as an argument gets the value, but inside a list or dict it stays a reference: kernel.get(list)"
)

_OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "@": "matmul", "**": "pow",
    "<<": "lshift", ">>": "rshift", "&": "and", "^": "xor", "|": "or",
}  # fmt: skip
_COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_ATTRIBUTES = (
    "get", "result", "value", "values", "wait", "done", "remote", "options",  # of futures, actors and functions
    "append", "items", "keys", "pop", "split", "strip", "upper", "lower", "format", "encode", "decode",
    "shape", "dtype", "size", "ndim", "T", "sum", "mean", "std", "min", "max", "reshape", "astype", "tolist", "numpy",
    "iloc", "loc", "columns", "index", "head", "groupby", "to_pandas", "cpu", "cuda",
)  # fmt: skip
"""Attributes that users try on a reference. A `__getattr__` would catch all, but slow down every access."""
_SINGLE = {"-": "neg", "+": "pos", "~": "invert", "abs": "abs", "int": "int", "float": "float"}


def _refuse(what: str) -> NoReturn:
    __tracebackhide__ = True
    raise ReferenceUseError(f"{what}: {REMEDY}")


class _Missing:
    """An attribute that references do not have; its use raises an error that says what to do."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, ref: object, owner: type) -> Any:
        if ref is None:
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")
        _refuse(f"an ObjectRef has no attribute {self._name!r}")


class NotAValue:
    """Refuse what only values can do, and say what to do instead.

    It has no `__iter__`, `__len__` and `__call__`: code that checks whether it can be iterated, measured or called must
    find that it can't.
    """

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        # Python comes here to iterate, too, which begins with the first item.
        _refuse("an ObjectRef can't be iterated" if index == 0 else "an ObjectRef has no items")


def _binary(symbol: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        sides = (other, self) if reflected else (self, other)
        left, right = (type(side).__name__ for side in sides)
        _refuse(f"{left} {symbol} {right} can't be computed")

    return operator


def _unary(symbol: str) -> Callable[[Any], Any]:
    def operator(self: Any) -> Any:
        _refuse(
            f"{symbol}(ObjectRef) can't be computed" if symbol.isalpha() else f"{symbol}ObjectRef can't be computed"
        )

    return operator


for _name in _ATTRIBUTES:
    setattr(NotAValue, _name, _Missing(_name))
for _symbol, _name in _OPERATORS.items():
    setattr(NotAValue, f"__{_name}__", _binary(_symbol, False))
    setattr(NotAValue, f"__r{_name}__", _binary(_symbol, True))
for _symbol, _name in _COMPARISONS.items():
    setattr(NotAValue, f"__{_name}__", _binary(_symbol, False))
for _symbol, _name in _SINGLE.items():
    setattr(NotAValue, f"__{_name}__", _unary(_symbol))
