"""Call networks of users, and read what they return: networks of both generations, and plain ones.

A network is one of three kinds: a `TorchModelV2`, which has a `value_function`; a `TorchRLModule`, which returns
columns by name; or a plain `torch.nn.Module`, which returns outputs, or outputs and values. The first two may remember:
they have an initial state then, and are called with sequences of one episode each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.model_v2 import TorchModelV2
from kernel_rllib.modules.rl_module import TorchRLModule
from kernel_rllib.spaces import nested

QF_PREDS = "qf_preds"
WITHIN = "."
"""The separator between the keys of a nested state, in the name of one of its arrays."""
Unflatten = Callable[[Any], Any]
"""Makes what the environment observes, in its shape, of rows [N, ...]."""


@dataclass(frozen=True)
class NetworkCall:
    """The arguments of a call of a network.

    Attributes:
        rows: Rows of observations [N, ...]; of a network that remembers [B * S, ...], sequence after sequence.
        obs: The same in the shape of the environment's space.
        state: Its state before the call, tensors [B, ...] by their names; empty if it has none.
        lengths: The length of each sequence, int64 [B]; None if it has no state. The longest has S steps, and others
            are filled up.
        previous: `prev_actions` and `prev_rewards` [N, ...], for models of the first generation that asked for them.
    """

    rows: torch.Tensor
    obs: Any
    state: Mapping[str, torch.Tensor] = field(default_factory=dict)
    lengths: torch.Tensor | None = None
    previous: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The results of a network: outputs [N, P], values [N] or None, and its state after the call, [B, ...] each."""

    outputs: Any
    values: Any
    state: Mapping[str, Any] = field(default_factory=dict)


def initial_state_of(network: Any) -> dict[str, Array]:
    """Return what a network remembers when an episode begins, by names; nothing if it doesn't remember.

    Raises:
        ModuleError: If that can't be known, or is no numbers.
    """
    if not isinstance(network, (TorchModelV2, TorchRLModule)):
        return {}
    given = network.get_initial_state()
    if isinstance(given, Mapping):
        return {name: _numbers(network, value) for name, value in _named(given)}
    if isinstance(given, (list, tuple)):
        return {str(place): _numbers(network, value) for place, value in enumerate(given)}
    raise ModuleError(
        f"{type(network).__name__}.get_initial_state() returned {given!r}, and a list of arrays or a dict of them was "
        "expected"
    )


def answer_of(network: Any, call: NetworkCall, method: str, *, with_values: bool) -> Answer:
    """Return what a network answers to a call.

    Args:
        network: The network.
        call: The arguments of the call.
        method: The name of the method of a `TorchRLModule` that is called.
        with_values: Whether values are asked for as well.
    """
    if hasattr(network, "value_function"):
        return _of_model(network, call, with_values=with_values)
    if isinstance(network, TorchRLModule):
        return _of_rl_module(network, call, method, with_values=with_values)
    found = network(call.obs)
    return Answer(*found) if isinstance(found, tuple) else Answer(found, None)


def no_values(network: Any) -> str:
    """Return the message of an error: this network gives no values of observations."""
    how = "define value_function(self), which returns the values [N] of the last forward pass"
    if isinstance(network, TorchRLModule):
        how = "define compute_values(self, batch), which returns the values [N] of its observations"
    elif not isinstance(network, TorchModelV2):
        how = "return a pair from forward: the outputs [N, P], and the values [N]"
    return f"{type(network).__name__} gives no values of observations, which this algorithm needs; {how}"


def _of_model(network: Any, call: NetworkCall, *, with_values: bool) -> Answer:
    inputs = {"obs": call.obs, "obs_flat": call.rows.flatten(1), "is_training": network.training}
    inputs.update(call.previous)
    outputs, after = network(inputs, list(call.state.values()), call.lengths)
    state = dict(zip(call.state, after, strict=False)) if call.state else {}
    if call.state and len(after) != len(call.state):
        raise ModuleError(
            f"{type(network).__name__}.forward() returned a state of {len(after)} tensors, and get_initial_state() has "
            f"{len(call.state)}; return one for each"
        )
    if not with_values:
        return Answer(outputs, None, state)
    try:
        return Answer(outputs, network.value_function(), state)
    except NotImplementedError:
        raise ModuleError(no_values(network)) from None


def _of_rl_module(network: Any, call: NetworkCall, method: str, *, with_values: bool) -> Answer:
    batch: dict[str, Any] = {columns.OBS: call.obs}
    if call.lengths is not None:
        shape = (len(call.lengths), -1)
        batch[columns.OBS] = nested.mapped(lambda part: part.reshape(*shape, *part.shape[1:]), call.obs)
        batch[columns.STATE_IN] = _unnamed(call.state)
    found = getattr(network, method)(batch)
    outputs = next((found[name] for name in (columns.ACTION_DIST_INPUTS, QF_PREDS) if name in found), None)
    if outputs is None:
        raise ModuleError(
            f"{type(network).__name__}.{method}() returned {', '.join(found) or 'nothing'}, and "
            f"{columns.ACTION_DIST_INPUTS!r} or, of Q-learning, {QF_PREDS!r} was expected; return one of them"
        )
    values = found.get(columns.VF_PREDS)
    if with_values and values is None:
        embeddings = found.get(columns.EMBEDDINGS)
        values = network.compute_values(batch, *([] if embeddings is None else [embeddings]))
    if call.lengths is None:
        return Answer(outputs, values)
    state = dict(_named(found.get(columns.STATE_OUT, {})))
    if set(state) != set(call.state):
        raise ModuleError(
            f"{type(network).__name__}.{method}() returned {columns.STATE_OUT!r} with {', '.join(state) or 'nothing'}, "
            f"and get_initial_state() has {', '.join(call.state)}; return the same"
        )
    rows = outputs.flatten(0, 1) if outputs.ndim == 3 else outputs
    return Answer(rows, None if values is None else values.reshape(-1), state)


def _named(state: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the parts of a nested state with their names. Raises ModuleError for names that can't be told apart."""
    for key, value in state.items():
        if not isinstance(key, str) or WITHIN in key:
            raise ModuleError(f"a state is named {key!r}: names of states are texts without {WITHIN!r}; rename it")
        if isinstance(value, Mapping):
            yield from _named(value, f"{before}{key}{WITHIN}")
        else:
            yield f"{before}{key}", value


def _unnamed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested state that `_named` was called of."""
    found: dict[str, Any] = {}
    for name, value in state.items():
        *path, last = name.split(WITHIN)
        inside = found
        for key in path:
            inside = inside.setdefault(key, {})
        inside[last] = value
    return found


def _numbers(network: Any, value: Any) -> Array:
    array = np.asarray(value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else value)
    if array.dtype.kind not in "biuf":
        raise ModuleError(
            f"{type(network).__name__}.get_initial_state() has {value!r} in it: only arrays and tensors of numbers can "
            "be remembered from step to step"
        )
    return array.astype(np.float32)
