"""Modules in checkpoints: how one is made again from its directory alone, and acts with its parameters.

module.json    the class of the module, and what it was made with
weights.npy, tree.json    its parameters, and their table
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.checkpoints.files import write_file
from kernel_rllib.checkpoints.tree import read_tree
from kernel_rllib.checkpoints.values import Reader, Writer, path_of
from kernel_rllib.data import columns
from kernel_rllib.errors import CheckpointError, ModuleError
from kernel_rllib.modules.module import Module
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.nn.parameters import ParameterTable

MODULE = "module.json"


def write_module(directory: str | Path, module: Module) -> None:
    """Write what a module is made of again, into the directory of its parameters.

    A module of a class that has no name, or that was made with what JSON can't have, is written as such: it is made
    again by its algorithm only.
    """
    write = Writer()
    arguments, named = module.made_with
    written = {"class": path_of(type(module)), "arguments": write(list(arguments)), "named": write(dict(named))}
    if written["class"] is None or write.pickles:
        written = {"class": None, "shown": f"{type(module).__module__}.{type(module).__qualname__}"}
    write_file(Path(directory) / MODULE, json.dumps(written, indent=1))


def read_module(directory: str | Path) -> Module:
    """Return the module of a directory, without its parameters.

    Raises:
        CheckpointError: If there is none, or it can't be made of what is there.
    """
    file = Path(directory) / MODULE
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        if written["class"] is None:
            raise CheckpointError(
                f"{file}: the module is a {written['shown']}, made with what no text can have, so it can't be made of "
                "its directory alone. Load it by Algorithm.from_checkpoint."
            )
        read = Reader(_refuse_pickles)
        made = read({"@path": written["class"]})(*read(written["arguments"]), **read(written["named"]))
    except FileNotFoundError:
        raise CheckpointError(
            f"{directory} has no {MODULE}: give the directory of a module, learner_group/learner/rl_module/<id> in a "
            "checkpoint"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{file} is damaged: {error!r}. Take an older checkpoint.") from error
    assert isinstance(made, Module)
    return made


class SavedModule:
    """A module with parameters, to act with. It needs no algorithm, no environment and no torch."""

    def __init__(self, module: Module, weights: Array) -> None:
        """Act with these parameters [size]."""
        self.module = module
        self._parameters = module.table.views(np.ascontiguousarray(weights, np.float32))

    @classmethod
    def from_checkpoint(cls, path: str | Path, module_id: str | None = None) -> SavedModule | dict[str, SavedModule]:
        """Return the module of a directory, or all modules of one by their ids.

        Args:
            path: The directory of a module, that of all modules (`rl_module`), or a whole checkpoint.
            module_id: The id of one of several; None for all.

        Raises:
            CheckpointError: If there is none, or it is damaged.
        """
        root = Path(path)
        for inside in ("learner_group/learner/rl_module", "learner/rl_module", "rl_module"):
            if (root / inside).is_dir():
                root = root / inside
                break
        if (root / MODULE).exists() or not root.is_dir():
            return cls._of(root)
        found = {each.name: each for each in sorted(root.iterdir()) if (each / MODULE).exists()}
        if module_id is not None:
            if module_id not in found:
                raise CheckpointError(f"{path} has no module {module_id!r}; it has {', '.join(found) or 'none'}")
            return cls._of(found[module_id])
        if not found:
            return cls._of(root)
        return {name: cls._of(each) for name, each in found.items()}

    @classmethod
    def _of(cls, directory: Path) -> SavedModule:
        module, saved = read_module(directory), read_tree(directory)
        table = ParameterTable({name: tuple(shape) for name, shape in saved["table"]})
        if table != module.table:
            raise CheckpointError(
                f"{directory}: {MODULE} describes the parameters {module.table.shapes()}, and the file of weights has "
                f"{table.shapes()}: they are of different checkpoints"
            )
        return cls(module, saved["weights"])

    def forward_inference(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """Return what choosing the best known actions needs; see `forward_train` for what it takes."""
        return self._forward(self.module.infer, batch)

    def forward_exploration(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """Return what choosing actions while training needs; see `forward_train` for what it takes."""
        return self._forward(self.module.explore, batch)

    def forward_train(self, batch: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """Return all outputs of the module.

        Args:
            batch: `obs`, rows [N, ...] as preprocessors make them; for a module that remembers, `state_in` as its last
                call returned in `state_out`, or nothing at first. Arrays give arrays, tensors of torch tensors.

        Raises:
            ModuleError: If `obs` is missing, or has another shape than the module takes.
        """
        return self._forward(self.module.train, batch)

    def get_state(self) -> dict[str, Array]:
        """Return the value of each parameter, by its name."""
        return {name: np.array(value) for name, value in self._parameters.items()}

    def _forward(self, forward: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
        if columns.OBS not in batch:
            raise ModuleError(
                f"a module acts on the column {columns.OBS!r}, and was given {', '.join(batch) or 'none'}"
            )
        torch = sys.modules.get("torch")
        gives_tensors = torch is not None and isinstance(batch[columns.OBS], torch.Tensor)
        inputs: dict[str, Any] = {name: _plain(value) for name, value in batch.items()}
        rows = len(inputs[columns.OBS])
        if self.module.state() and not inputs.get(columns.STATE_IN):
            begins = self.module.initial_state().items()
            inputs[columns.STATE_IN] = {name: np.repeat(first[None], rows, axis=0) for name, first in begins}
        try:
            outputs = forward(NumpyOps(), self._parameters, inputs)
        except ValueError as error:
            shape = inputs[columns.OBS].shape
            raise ModuleError(
                f"{type(self.module).__name__} can't take observations {list(shape)}: {error}. Give rows [N, ...] as "
                "the preprocessor of the algorithm makes them."
            ) from error
        if columns.Q_VALUES in outputs:
            outputs = {**outputs, columns.ACTIONS: outputs[columns.Q_VALUES].argmax(axis=-1)}
        return {name: _as_tensor(value) if gives_tensors else value for name, value in outputs.items()}


def _refuse_pickles(number: int) -> Any:
    raise CheckpointError("a module's description has no pickles, and this one names one: it is damaged")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype in (np.float64, np.float16) or array.dtype.kind == "i" else array


def _as_tensor(value: Any) -> Any:
    import torch

    if isinstance(value, Mapping):
        return {name: _as_tensor(each) for name, each in value.items()}
    return torch.from_numpy(np.ascontiguousarray(value))
