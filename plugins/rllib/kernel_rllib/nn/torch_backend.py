"""Losses and networks in torch: their values, and their gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.backend import Loss, Params, forget_oldest, no_dependence, not_a_number, trained
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.optimizers import Optimizer
from kernel_rllib.nn.parameters import ParameterTable
from kernel_rllib.nn.torch_ops import TorchOps
from kernel_rllib.nn.torch_optimizers import TorchOptimizer


class TorchBackend:
    """Computes in torch on `device` ("cpu", "cuda", "cuda:1"); `Backend` says what each method does.

    Vectors may be torch tensors on the device, or on the CPU numpy arrays, which torch then reads and writes in place;
    a gradient is of the kind of the vector.
    """

    name = "torch"

    def __init__(self, device: Any = None) -> None:
        self.device = torch.device("cpu" if device is None else device)
        self._plans: dict[tuple[ParameterTable, tuple[str, ...] | None], _Plan] = {}

    def vector(self, values: Any) -> torch.Tensor:
        """Return a copy of `values` as a vector on the device."""
        tensor = torch.tensor(self.to_numpy(values), device=self.device)
        return tensor if tensor.dtype == torch.float64 else tensor.float()

    def to_numpy(self, vector: Any) -> Any:
        """Return a vector as a numpy array; on the CPU it is the same memory."""
        return vector.detach().cpu().numpy() if isinstance(vector, torch.Tensor) else vector

    def evaluate(self, function: Callable[[Ops, Params], Any], vector: Any, table: ParameterTable) -> Any:
        """Return `function(nn, params)`, with numpy arrays for tensors."""
        flat = self._flat(vector)
        with torch.no_grad():
            return _in_numpy(function(TorchOps(flat.dtype, self.device), table.views(flat)))

    def gradient(
        self, loss: Loss, vector: Any, table: ParameterTable, trainable: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], Any]:
        """Return the metrics of a loss, and its gradient."""
        key = (table, None if trainable is None else tuple(trainable))
        plan = self._plans.get(key)
        if plan is None or plan.vector is not vector:
            forget_oldest(self._plans)
            plan = self._plans[key] = _Plan(vector, self._flat(vector), table, key[1])
        return plan.run(loss)

    def optimizer(self, name: str, size: int, **settings: Any) -> Optimizer:
        """Return an optimizer of vectors on the device."""
        return TorchOptimizer(name, size, self.device, **settings)

    def _flat(self, vector: Any) -> torch.Tensor:
        if isinstance(vector, torch.Tensor):
            return vector.detach()
        if self.device.type != "cpu":
            raise ModuleError(
                f"a vector in numpy was given to a backend on {self.device}: make one there by backend.vector(values), "
                "once, and keep it"
            )
        return torch.from_numpy(vector)


class _Plan:
    """Holds what gradients of one vector by the same parameters share: leaves for autograd, and the result."""

    def __init__(
        self, vector: Any, flat: torch.Tensor, table: ParameterTable, trainable: tuple[str, ...] | None
    ) -> None:
        self.vector = vector
        self._nn = TorchOps(flat.dtype, flat.device)
        self._gradient = torch.zeros_like(flat)
        self._result = self._gradient if isinstance(vector, torch.Tensor) else self._gradient.numpy()
        slots = table.views(self._gradient)
        self._params = table.views(flat)
        self._leaves = trained(table, trainable)
        for name in self._leaves:
            leaf = self._params[name] = self._params[name].detach().requires_grad_()
            leaf.grad = slots[name]  # autograd adds to it in place

    def run(self, loss: Loss) -> tuple[dict[str, Any], Any]:
        """Return the metrics and the gradient of `loss`."""
        self._gradient.zero_()
        with torch.enable_grad():
            value, metrics = loss(self._nn, self._params)
            if not isinstance(value, torch.Tensor) or not value.requires_grad:
                raise no_dependence(self._leaves)
            if value.ndim:
                raise not_a_number(tuple(value.shape))
            value.backward()  # type: ignore[no-untyped-call]
        return _settled(metrics), self._result


def _settled(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return numbers as floats and tensors as numpy arrays; the numbers leave the device together."""
    settled = {name: _in_numpy(value) if getattr(value, "ndim", 0) else value for name, value in metrics.items()}
    names = [name for name, value in settled.items() if isinstance(value, torch.Tensor)]
    if names:
        numbers = torch.stack([settled[name].detach().double() for name in names]).tolist()
        settled.update(zip(names, numbers, strict=True))
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in settled.items()}


def _in_numpy(value: Any) -> Any:
    """Return `value`, a tensor or a tuple, list or dict of them, with numpy arrays in place of tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, Mapping):
        return {key: _in_numpy(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(_in_numpy(item) for item in value)
    return value
