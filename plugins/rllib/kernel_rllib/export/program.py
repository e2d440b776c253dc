"""A module's computation as a list of operations: it is run once, with operations that write down each call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernel_rllib.errors import ModuleError
from kernel_rllib.export.player import OPERATIONS
from kernel_rllib.nn.numpy_ops import NumpyOps

ROWS = 7919
"""The number of rows of the traced run: a number that is no width of anything, so that it is recognised in shapes."""


class Recorder:
    """Operations that compute as numpy does, and write down each call."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """Begin a program over these parameters."""
        self._nn = NumpyOps()
        self.program: list[list[Any]] = []
        self.weights: dict[str, Any] = {}
        self.parameters = {name: Recorded(self, value, {"weight": name}) for name, value in parameters.items()}

    def constant(self, array: Any) -> Any:
        """Return an array as a constant of the program."""
        return array

    def stop_gradient(self, x: Any) -> Any:
        """Return the same: nothing is differentiated."""
        return x

    def to_numpy(self, x: Any) -> Any:
        """Return the same: it is an array of numpy."""
        return x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self._nn, name):
            raise AttributeError(name)
        return lambda *arguments, **named: self.call(name, arguments, named, getattr(self._nn, name))

    def call(self, name: str, arguments: Any, named: Mapping[str, Any], compute: Any) -> Any:
        """Compute, write it down, and return the result."""
        if name not in OPERATIONS:
            raise ModuleError(
                f"the network computes {name!r}, which the numpy player does not know: export the checkpoint of the "
                "policy (export_policy_checkpoint), and act with SavedModule"
            )
        value = compute(*_values(arguments), **_values(dict(named)))
        number = len(self.program)
        self.program.append([name, [self.written(each) for each in arguments], self.written(dict(named))])
        if isinstance(value, (list, tuple)):
            return [Recorded(self, part, {"part": [number, place]}) for place, part in enumerate(value)]
        return Recorded(self, value, {"value": number})

    def written(self, value: Any) -> Any:
        """Return what stands for an argument in the program."""
        if isinstance(value, Recorded):
            if "weight" in value.reference:
                self.weights[value.reference["weight"]] = np.asarray(value.value)
            return value.reference
        if isinstance(value, dict):
            return {name: self.written(each) for name, each in value.items()}
        if isinstance(value, (np.ndarray, np.generic)):
            name = f"constant/{len(self.weights)}"
            self.weights[name] = np.asarray(value)
            return {"weight": name}
        if isinstance(value, list):
            return [self.written(each) for each in value]
        if isinstance(value, tuple):
            return {"tuple": [self.written(each) for each in value]}
        if isinstance(value, slice):
            return {"slice": [self.written(each) for each in (value.start, value.stop, value.step)]}
        if value is Ellipsis:
            return {"ellipsis": None}
        if isinstance(value, int) and value == ROWS:
            return {"rows": None}
        return value


class Recorded:
    """An array that a program computes."""

    def __init__(self, recorder: Recorder, value: Any, reference: dict[str, Any]) -> None:
        """Stand for a value; `reference` says in the program which one it is."""
        self._recorder, self.value, self.reference = recorder, value, reference
        self.shape, self.dtype, self.ndim = value.shape, value.dtype, value.ndim

    def __getitem__(self, place: Any) -> Any:
        return self._recorder.call("getitem", (self, place), {}, lambda x, where: x[where])

    def astype(self, dtype: Any, **_: Any) -> Any:
        """Return it in another dtype."""
        return self._recorder.call("astype", (self, np.dtype(dtype).str), {}, lambda x, to: x.astype(to))

    def argmax(self, axis: int = -1) -> Any:
        """Return the places of the greatest ones along an axis."""
        return self._recorder.call("argmax", (self,), {"axis": axis}, lambda x, axis: x.argmax(axis=axis))

    def __neg__(self) -> Any:
        return self._recorder.call("neg", (self,), {}, np.negative)

    def __len__(self) -> int:
        return len(self.value)

    __array_ufunc__ = None  # arrays leave operators to this class


def _binary(name: str, compute: Any) -> tuple[Any, Any]:
    def forward(self: Recorded, other: Any) -> Any:
        return self._recorder.call(name, (self, other), {}, compute)

    def backward(self: Recorded, other: Any) -> Any:
        return self._recorder.call(name, (other, self), {}, compute)

    return forward, backward


for _name, _compute in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide)):
    _forward, _backward = _binary(_name, _compute)
    setattr(Recorded, f"__{_name}__", _forward)
    setattr(Recorded, f"__r{_name}__", _backward)


def _values(given: Any) -> Any:
    if isinstance(given, Recorded):
        return given.value
    if isinstance(given, dict):
        return {name: _values(each) for name, each in given.items()}
    if isinstance(given, (list, tuple)):
        return type(given)(_values(each) for each in given)
    return given
