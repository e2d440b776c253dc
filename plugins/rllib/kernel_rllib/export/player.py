"""Plays a policy that was exported. It needs numpy alone: copy it, `policy.json` and `weights.npz` wherever you like.

from player import Policy

policy = Policy("the directory of these files")
actions = policy.actions([[0.0, 0.0, 0.0, 0.0]])
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def _softmax(x: Any, axis: int = -1) -> Any:
    shifted = np.exp(x - x.max(axis=axis, keepdims=True))
    return shifted / shifted.sum(axis=axis, keepdims=True)


def _sigmoid(x: Any) -> Any:
    return 0.5 * (1 + np.tanh(0.5 * x))


ACTIVATIONS: dict[str | None, Callable[..., Any]] = {
    None: lambda x: x,
    "linear": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "swish": lambda x: x * _sigmoid(x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "softplus": lambda x: np.logaddexp(x, 0),
}


def _linear(x: Any, weight: Any, bias: Any = None, activation: str | None = None) -> Any:
    y = x @ weight
    return ACTIVATIONS[activation](y if bias is None else y + bias)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "matmul": np.matmul,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "neg": np.negative,
    "getitem": lambda x, place: x[place],
    "mean": lambda x, axis=None, keepdims=False: x.mean(axis=axis, keepdims=keepdims),
    "sum": lambda x, axis=None, keepdims=False: x.sum(axis=axis, keepdims=keepdims),
    "max": lambda x, axis=None, keepdims=False: x.max(axis=axis, keepdims=keepdims),
    "argmax": lambda x, axis=-1: x.argmax(axis=axis),
    "softmax": _softmax,
    "clip": np.clip,
    "tanh": np.tanh,
    "exp": np.exp,
    "square": np.square,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "relu": ACTIVATIONS["relu"],
    "sigmoid": _sigmoid,
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "concat": lambda values, axis=-1: np.concatenate(values, axis=axis),
    "stack": lambda values, axis=0: np.stack(values, axis=axis),
    "split": lambda x, sections, axis=-1: np.split(x, sections, axis=axis),
    "squeeze": lambda x, axis: np.squeeze(x, axis=axis),
    "transpose": lambda x, axes=None: x.transpose(axes),
    "expand_dims": lambda x, axis: np.expand_dims(x, axis=axis),
    "astype": lambda x, dtype: x.astype(dtype),
    "rint": np.rint,
}


class Policy:
    """A policy: what its network puts out for observations, and the best known actions."""

    def __init__(self, directory: str | Path) -> None:
        """Load the policy in a directory."""
        self.description = json.loads((Path(directory) / "policy.json").read_text(encoding="utf-8"))
        with np.load(Path(directory) / "weights.npz", allow_pickle=False) as file:
            self.weights = {name: file[name] for name in file.files}

    def outputs(self, obs: Any) -> dict[str, Any]:
        """Return all outputs by name, arrays [N, ...], for rows of observations [N, ...] as the network takes them."""
        obs = np.asarray(obs, self.description["dtype"])
        expected = self.description["observation"]
        if list(obs.shape[1:]) != expected:
            raise ValueError(f"observations have the shape {list(obs.shape)}, but must be [N, {str(expected)[1:-1]}]")
        values: dict[int, Any] = {}
        for number, (operation, arguments, named) in enumerate(self.description["program"]):
            read = [self._read(each, values, obs) for each in arguments]
            further = {name: self._read(each, values, obs) for name, each in named.items()}
            values[number] = OPERATIONS[operation](*read, **further)
        return {name: self._read(each, values, obs) for name, each in self.description["outputs"].items()}

    def actions(self, obs: Any) -> Any:
        """Return the best known action for each row of observations, as the environment takes them."""
        return self.outputs(obs)["actions"]

    def _read(self, written: Any, values: dict[int, Any], obs: Any) -> Any:
        if isinstance(written, list):
            return [self._read(each, values, obs) for each in written]
        if not isinstance(written, dict):
            return written
        ((kind, what),) = written.items()
        if kind == "value":
            return values[what]
        if kind == "part":
            return values[what[0]][what[1]]
        if kind == "weight":
            return self.weights[what]
        if kind == "obs":
            return obs
        if kind == "rows":
            return len(obs)
        if kind == "slice":
            return slice(*(self._read(each, values, obs) for each in what))
        if kind == "ellipsis":
            return Ellipsis
        return tuple(self._read(each, values, obs) for each in what)
