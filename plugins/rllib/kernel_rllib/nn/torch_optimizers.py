"""Torch's optimizers over one flat vector, on any device, with the names and the state of those in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.nn.optimizers import OPTIMIZERS

_CLASSES: dict[str, Any] = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD,
}  # fmt: skip
_MOMENTS = {
    "adam": {"mean": "exp_avg", "square": "exp_avg_sq"},
    "adamw": {"mean": "exp_avg", "square": "exp_avg_sq"},
    "rmsprop": {"square": "square_avg", "momentum": "momentum_buffer", "mean": "grad_avg"},
    "sgd": {"momentum": "momentum_buffer"},
}
"""The names in torch of the moments of the optimizers in numpy."""


class TorchOptimizer:
    """One of torch's optimizers; `Optimizer` says what each method does. The settings are those in numpy."""

    def __init__(self, name: str, size: int, device: Any, dtype: torch.dtype = torch.float32, **settings: Any) -> None:
        if name not in _CLASSES:
            raise ConfigError(f"there is no optimizer {name!r}: take one of {', '.join(_CLASSES)}")
        try:
            # The one in numpy knows which moments there are with these settings.
            self._moments = [key for key in OPTIMIZERS[name](0, **settings).state() if key != "steps"]
        except TypeError as error:
            raise ConfigError(f"the optimizer {name!r} was given {settings}: {error}") from None
        self.size, self._name = size, name
        self._names = _MOMENTS[name]
        self._parameter = torch.nn.Parameter(torch.zeros(size, device=device, dtype=dtype))
        self._optimizer = _CLASSES[name](
            [self._parameter], lr=0.0, **{"eps" if key == "epsilon" else key: value for key, value in settings.items()}
        )
        self._steps = 0

    def step(self, vector: Any, gradient: Any, learning_rate: float) -> None:
        """Change `vector` in place."""
        if tuple(vector.shape) != (self.size,) or tuple(gradient.shape) != (self.size,):
            raise ModuleError(
                f"the optimizer {self._name!r} was made for {self.size} parameters, and was given a vector of shape "
                f"{tuple(vector.shape)} with a gradient of shape {tuple(gradient.shape)}"
            )
        self._parameter.data = _tensor(vector)
        self._parameter.grad = _tensor(gradient)
        self._optimizer.param_groups[0]["lr"] = learning_rate
        self._optimizer.step()
        self._steps += 1

    def state(self) -> dict[str, NDArray[Any]]:
        """Return copies of the moments and the count of steps."""
        held = self._optimizer.state.get(self._parameter, {})
        state: dict[str, NDArray[Any]] = {"steps": np.array(self._steps)}
        for moment in self._moments:
            tensor = held.get(self._names[moment])
            tensor = torch.zeros_like(self._parameter) if tensor is None else tensor
            state[moment] = tensor.detach().cpu().numpy().copy()
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned elsewhere, also in numpy."""
        expected = {"steps": (), **{moment: (self.size,) for moment in self._moments}}
        found = {name: np.shape(value) for name, value in state.items()}
        if found != expected:
            raise ModuleError(
                f"the state of the optimizer {self._name!r} consists of {expected} (names and shapes), and was given "
                f"{found}: take the state of the same kind of optimizer for the same parameters"
            )
        self._steps = int(state["steps"])
        held: dict[str, Any] = {"step": torch.tensor(float(self._steps))} if self._name != "sgd" else {}
        for moment in self._moments:
            held[self._names[moment]] = torch.tensor(np.asarray(state[moment])).to(self._parameter)
        if self._steps == 0:
            held = {}
        self._optimizer.state[self._parameter] = held


def _tensor(vector: Any) -> torch.Tensor:
    return vector.detach() if isinstance(vector, torch.Tensor) else torch.from_numpy(vector)
