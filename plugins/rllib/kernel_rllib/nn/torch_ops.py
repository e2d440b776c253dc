"""The operations on torch tensors, on any device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from kernel_rllib.nn.convolution import zeros_around
from kernel_rllib.nn.elementwise import unknown_activation
from kernel_rllib.nn.numpy_ops import parts, places
from kernel_rllib.nn.ops import Axis, Network
from kernel_rllib.nn.side_by_side import parts_of
from kernel_rllib.nn.softmaxes import SMALLEST_LOG_PROBABILITY

_ACTIVATIONS: dict[str | None, Any] = {
    None: None, "linear": None, "tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid,
    "silu": functional.silu, "swish": functional.silu, "elu": functional.elu, "gelu": functional.gelu,
    "leaky_relu": functional.leaky_relu, "softplus": functional.softplus,
}  # fmt: skip


class TorchOps:
    """Operations on tensors; `Ops` says what each does. Floats that `constant` takes in become of `dtype`."""

    def __init__(self, dtype: torch.dtype = torch.float32, device: Any = "cpu") -> None:
        self.dtype, self.device = dtype, torch.device(device)

    def constant(self, array: Any) -> Any:
        if isinstance(array, torch.Tensor):
            return array.detach().to(self.device)
        array = np.asarray(array)
        tensor = torch.as_tensor(array if array.flags.writeable else array.copy(), device=self.device)
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def stop_gradient(self, x: Any) -> Any:
        return x.detach()

    def to_numpy(self, x: Any) -> Any:
        return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)

    def _tensor(self, x: Any) -> Any:
        return x if isinstance(x, torch.Tensor) else self.constant(x)

    # -- element by element --------------------------------------------------------------------------------------

    exp = staticmethod(torch.exp)
    log = staticmethod(torch.log)
    log1p = staticmethod(torch.log1p)
    sqrt = staticmethod(torch.sqrt)
    square = staticmethod(torch.square)
    abs = staticmethod(torch.abs)
    sin = staticmethod(torch.sin)
    cos = staticmethod(torch.cos)
    tanh = staticmethod(torch.tanh)
    atanh = staticmethod(torch.atanh)
    sigmoid = staticmethod(torch.sigmoid)
    relu = staticmethod(torch.relu)
    silu = staticmethod(functional.silu)
    gelu = staticmethod(functional.gelu)
    softplus = staticmethod(functional.softplus)
    erf = staticmethod(torch.erf)
    lgamma = staticmethod(torch.lgamma)
    digamma = staticmethod(torch.digamma)

    def sign(self, x: Any) -> Any:
        return torch.sign(x.detach())

    def leaky_relu(self, x: Any, slope: float = 0.01) -> Any:
        return functional.leaky_relu(x, slope)

    def elu(self, x: Any, alpha: float = 1.0) -> Any:
        return functional.elu(x, alpha)

    def huber(self, x: Any, delta: float = 1.0) -> Any:
        return functional.huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        if isinstance(low, torch.Tensor) or isinstance(high, torch.Tensor):  # then torch wants tensors for both
            low = None if low is None else self._tensor(low).detach()
            high = None if high is None else self._tensor(high).detach()
        return torch.clamp(x, low, high)

    def maximum(self, x: Any, y: Any) -> Any:
        return torch.maximum(self._tensor(x), self._tensor(y))

    def minimum(self, x: Any, y: Any) -> Any:
        return torch.minimum(self._tensor(x), self._tensor(y))

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        return torch.where(self._tensor(mask), self._tensor(x), self._tensor(y))

    # -- along axes ----------------------------------------------------------------------------------------------

    def sum(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return torch.sum(x, dim=_dims(x, axis), keepdim=keepdims)

    def mean(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return torch.mean(x if x.is_floating_point() else x.to(self.dtype), dim=_dims(x, axis), keepdim=keepdims)

    def max(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return torch.amax(x, dim=_dims(x, axis), keepdim=keepdims)

    def min(self, x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        return torch.amin(x, dim=_dims(x, axis), keepdim=keepdims)

    def logsumexp(self, x: Any, axis: int = -1, keepdims: bool = False) -> Any:
        return torch.logsumexp(x, dim=axis, keepdim=keepdims)

    def softmax(self, x: Any, axis: int = -1) -> Any:
        return torch.softmax(x, dim=axis)

    def log_softmax(self, x: Any, axis: int = -1) -> Any:
        return torch.log_softmax(x, dim=axis)

    def log_softmax_at(self, x: Any, index: Any) -> Any:
        return self.take_along(torch.log_softmax(x, dim=-1), index[..., None])[..., 0]

    def softmax_entropy(self, x: Any) -> Any:
        logs = torch.clamp(torch.log_softmax(x, dim=-1), min=SMALLEST_LOG_PROBABILITY)
        return -torch.sum(torch.softmax(x, dim=-1) * logs, dim=-1)

    def log_softmax_at_and_entropy(self, x: Any, index: Any) -> tuple[Any, Any]:
        return self.log_softmax_at(x, index), self.softmax_entropy(x)

    def clipped_surrogate(self, log_probs: Any, before: Any, advantages: Any, low: float, high: float) -> Any:
        before, advantages = self._tensor(before).detach(), self._tensor(advantages).detach()
        ratio = torch.exp(log_probs - before)
        return torch.minimum(ratio * advantages, torch.clamp(ratio, low, high) * advantages)

    def cumsum(self, x: Any, axis: int) -> Any:
        return torch.cumsum(x, dim=axis)

    def argmax(self, x: Any, axis: int = -1) -> Any:
        return torch.argmax(x, dim=axis)

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, x: Any, shape: Sequence[int]) -> Any:
        return x.reshape(tuple(shape))

    def transpose(self, x: Any, axes: Sequence[int] | None = None) -> Any:
        return x.permute(tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))

    def squeeze(self, x: Any, axis: int) -> Any:
        return x.squeeze(axis)

    def expand_dims(self, x: Any, axis: int) -> Any:
        return x.unsqueeze(axis)

    def broadcast_to(self, x: Any, shape: Sequence[int]) -> Any:
        return torch.broadcast_to(x, tuple(shape))

    def flip(self, x: Any, axis: int) -> Any:
        return torch.flip(x, (axis,))

    def concat(self, values: Sequence[Any], axis: int = -1) -> Any:
        return torch.cat([self._tensor(value) for value in values], dim=axis)

    def stack(self, values: Sequence[Any], axis: int = 0) -> Any:
        return torch.stack([self._tensor(value) for value in values], dim=axis)

    def split(self, x: Any, sections: int | Sequence[int], axis: int = -1) -> list[Any]:
        return [x[part] for part in parts(tuple(x.shape), sections, axis)]

    # -- by index ------------------------------------------------------------------------------------------------

    def take_along(self, x: Any, index: Any, axis: int = -1) -> Any:
        index = self._tensor(index)
        places(tuple(x.shape), index, axis)  # for its error
        return torch.take_along_dim(x, index, dim=axis)

    def rows(self, x: Any, index: Any) -> Any:
        index = self._tensor(index)
        return functional.embedding(index, x) if x.ndim == 2 else x[index]

    def one_hot(self, index: Any, depth: int) -> Any:
        return functional.one_hot(self._tensor(index), depth).to(self.dtype)

    # -- layers --------------------------------------------------------------------------------------------------

    def matmul(self, x: Any, y: Any) -> Any:
        return torch.matmul(self._tensor(x), self._tensor(y))

    def linear(self, x: Any, weight: Any, bias: Any | None = None, activation: str | None = None) -> Any:
        function, x = _activation(activation), self._tensor(x)
        if weight.ndim == 2:
            y = functional.linear(x, weight.t(), bias)
        else:
            y = torch.matmul(x, weight)
            y = y if bias is None else y + bias[:, None]
        return y if function is None else function(y)

    def side_by_side(self, networks: Mapping[str, Network], params: Mapping[str, Any], *inputs: Any) -> list[Any]:
        parts = parts_of(tuple(networks), params)
        return [network(self, part, *inputs) for network, part in zip(networks.values(), parts, strict=True)]

    def layer_norm(self, x: Any, scale: Any | None = None, bias: Any | None = None, epsilon: float = 1e-5) -> Any:
        return functional.layer_norm(x, (x.shape[-1],), scale, bias, epsilon)

    def lstm(
        self, projected: Any, hidden: Any, cell: Any, weight: Any, starts: Any | None = None
    ) -> tuple[Any, Any, Any]:
        going_on = self._going_on(starts)
        hiddens = []
        for t, step in enumerate(projected.unbind(0)):
            if going_on is not None:
                hidden, cell = hidden * going_on[t], cell * going_on[t]
            hidden, cell = self.lstm_cell(step, hidden, cell, weight)
            hiddens.append(hidden)
        return torch.stack(hiddens), hidden, cell

    def lstm_cell(self, projected: Any, hidden: Any, cell: Any, weight: Any) -> tuple[Any, Any]:
        into, keep, candidate, show = torch.addmm(projected, hidden, weight).chunk(4, dim=-1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(into) * torch.tanh(candidate)
        return torch.sigmoid(show) * torch.tanh(cell), cell

    def gru(self, projected: Any, hidden: Any, weight: Any, bias: Any, starts: Any | None = None) -> tuple[Any, Any]:
        going_on = self._going_on(starts)
        hiddens = []
        for t, step in enumerate(projected.unbind(0)):
            hidden = self.gru_cell(step, hidden if going_on is None else hidden * going_on[t], weight, bias)
            hiddens.append(hidden)
        return torch.stack(hiddens), hidden

    def gru_cell(self, projected: Any, hidden: Any, weight: Any, bias: Any) -> Any:
        width = weight.shape[0]
        recalled = torch.addmm(bias, hidden, weight)
        gates = torch.sigmoid(projected[:, : 2 * width] + recalled[:, : 2 * width])
        reset, update = gates.chunk(2, dim=-1)
        candidate = torch.tanh(projected[:, 2 * width :] + reset * recalled[:, 2 * width :])
        return candidate + update * (hidden - candidate)

    def _going_on(self, starts: Any | None) -> Any:
        return None if starts is None else (self._tensor(starts) == 0).to(self.dtype)[..., None]

    def conv2d(
        self,
        x: Any,
        weight: Any,
        bias: Any | None = None,
        stride: int | tuple[int, int] = 1,
        padding: str | int | tuple[int, int] = "valid",
        activation: str | None = None,
    ) -> Any:
        function = _activation(activation)
        x = x.permute(0, 3, 1, 2)  # for torch, channels come second; in memory they stay last, which is quicker
        if padding == "same":
            strides = (stride, stride) if isinstance(stride, int) else stride
            rows, columns = (zeros_around(*axis) for axis in zip(x.shape[2:], weight.shape[:2], strides, strict=True))
            x = functional.pad(x, (*columns, *rows))
        y = functional.conv2d(x, weight.permute(3, 2, 0, 1), bias, stride, 0 if isinstance(padding, str) else padding)
        y = y if function is None else function(y)
        return y.permute(0, 2, 3, 1)

    def attention(self, query: Any, key: Any, value: Any, mask: Any | None = None) -> Any:
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=None if mask is None else self._tensor(mask)
        )


def _activation(name: str | None) -> Any:
    try:
        return _ACTIVATIONS[name]
    except KeyError:
        raise unknown_activation(name) from None


def _dims(x: Any, axis: Axis) -> Any:
    if axis is None:
        return tuple(range(x.ndim))
    return axis if isinstance(axis, int) else tuple(axis)
