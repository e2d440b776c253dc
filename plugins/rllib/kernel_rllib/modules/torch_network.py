"""A network of torch whose parameters are a part of the one vector, like those of any other module.

Before each pass its parameters are replaced by views of the vector that is in use: leaves of autograd where a learner
learns, numpy's own memory where a runner acts. They stay there afterwards, so that methods of the network that are
called between passes see them too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import nn as layers

from kernel_rllib.modules.module import Parameter, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.nn.products import ROW_BLOCK
from kernel_rllib.nn.torch_ops import TorchOps

Tensors = dict[str, torch.Tensor]
Forward = Callable[[layers.Module, Tensors], Tensors]
"""The computation of a network on rows of inputs: it returns outputs by name."""


class TorchNetwork:
    """A `torch.nn.Module`, its parameters by the names of a module's, and passes through it in any backend."""

    def __init__(self, name: str, network: layers.Module) -> None:
        """Take a network.

        Args:
            name: The prefix of the names of its parameters.
            network: The network, which is pickled as it is now, and sent so to runners.
        """
        self.name, self.network = name, network
        self._bound: Parameters | None = None
        self._pickled = cloudpickle.dumps(network)
        self._find()

    def parameters(self) -> list[Parameter]:
        """Return its parameters, and those of its buffers that hold floats: these get no gradient."""
        return [
            Parameter(name, tuple(value.shape), _as_it_is(value)) for name, value in (*self._learned, *self._buffers)
        ]

    def run(
        self, nn: Ops, parameters: Parameters, inputs: Mapping[str, Any], forward: Forward, *, apart: bool = True
    ) -> dict[str, Any]:
        """Return what `forward` computes of rows of inputs, as values of the backend.

        A runner's rows pass in blocks of always equally many, so that a row gives the same bits in any company.

        Args:
            nn: The operations.
            parameters: The parameters.
            inputs: Rows [N, ...], by names.
            forward: The function of the network that is computed.
            apart: Whether rows have nothing to do with one another, so that they may pass in blocks.
        """
        self.bind(nn, parameters)
        if isinstance(nn, TorchOps):
            self.network.train(torch.is_grad_enabled())
            rows = {name: nn.constant(value) for name, value in inputs.items()}
            return forward(self.network, {name: _floats(value, nn.dtype) for name, value in rows.items()})
        self.network.eval()
        rows = {name: torch.from_numpy(np.asarray(value, np.float32)) for name, value in inputs.items()}
        block = ROW_BLOCK if apart else max(map(len, rows.values()))
        parts = [torch.split(value, block) for value in rows.values()]
        with torch.no_grad():
            found = [forward(self.network, dict(zip(rows, part, strict=True))) for part in zip(*parts, strict=True)]
        return {name: torch.cat([outputs[name] for outputs in found]).numpy() for name in found[0]}

    def bind(self, nn: Ops, parameters: Parameters) -> None:
        """Let the network use these parameters from now on."""
        if parameters is self._bound:
            return
        for name, owners in self._owners.items():
            value = parameters[name]
            value = value if isinstance(value, torch.Tensor) else torch.from_numpy(value)
            for table, key, is_buffer in owners:
                table[key] = value.detach() if is_buffer else value
        if isinstance(nn, TorchOps) and nn.device.type != "cpu":
            for buffer in self.network.buffers():
                buffer.data = buffer.data.to(nn.device)
        self._bound = parameters

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "pickled": self._pickled}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        torch.set_num_threads(1)
        self.name, self._pickled = state["name"], state["pickled"]
        self.network = cloudpickle.loads(self._pickled)
        self._find()

    def _find(self) -> None:
        """Find where each parameter is used: several layers may share one."""
        self._bound = None
        names: dict[int, str] = {}
        self._owners: dict[str, list[tuple[dict[str, Any], str, bool]]] = {}
        self._learned: list[tuple[str, torch.Tensor]] = []
        self._buffers: list[tuple[str, torch.Tensor]] = []
        for path, part in self.network.named_modules():
            for table, is_buffer in ((part._parameters, False), (part._buffers, True)):
                for key, value in table.items():
                    if value is None or not value.is_floating_point():
                        continue
                    if id(value) not in names:
                        names[id(value)] = "/".join([self.name, *filter(None, path.split(".")), key])
                        found = self._buffers if is_buffer else self._learned
                        found.append((names[id(value)], value))
                    self._owners.setdefault(names[id(value)], []).append((table, key, is_buffer))


def _floats(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value if value.is_floating_point() else value.to(dtype)


def _as_it_is(value: torch.Tensor) -> Any:
    numbers = value.detach().cpu().numpy().astype(np.float32).copy()
    return lambda shape, generator: numbers
