"""The model of a policy, seen from outside: a forward pass, the values of it, and a summary of the layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.module import Module, Parameters
from kernel_rllib.modules.q_network import QNetwork
from kernel_rllib.nn.ops import Ops

Evaluate = Callable[[Callable[[Ops, Parameters], Any]], Any]
"""Returns `function(nn, parameters)`."""


class PolicyModel:
    """A module with parameters, as it is called by hand and by losses of users."""

    def __init__(self, module: Module, evaluate: Evaluate, convert: Callable[[Any], Any] | None = None) -> None:
        """Compute by this module.

        Args:
            module: The network.
            evaluate: Calls a function with the operations and parameters to compute with.
            convert: Makes what these compute with of lists and arrays; None for arrays of float32.
        """
        self.module = module
        self._evaluate, self._convert = evaluate, convert or _floats
        self._values: Any = None
        self._output: Any = None

    def from_batch(self, train_batch: Mapping[str, Any], is_training: bool = True) -> tuple[Any, list[Any]]:
        """Return what the model puts out for the observations of a batch, and what it remembers.

        That is the inputs of the action distribution [N, P]; of a Q-model the features that its heads take [N, F].

        Args:
            train_batch: Columns: `obs` [N, ...], preprocessed, and `state_in_0` and so on where the model remembers.
            is_training: Accepted as older programs pass it; no layer of a built-in model differs by it.
        """
        inputs: dict[str, Any] = {columns.OBS: self._convert(train_batch[columns.OBS])}
        names = list(self.module.state())
        if names:
            inputs[columns.STATE_IN] = self._state(names, train_batch, len(inputs[columns.OBS]))
            if columns.RESETS in train_batch:
                inputs[columns.RESETS] = train_batch[columns.RESETS]
        if isinstance(self.module, QNetwork):
            body = self.module.body
            self._output = self._evaluate(lambda nn, parameters: body(nn, parameters, inputs[columns.OBS]))
            return self._output, []
        outputs = self._evaluate(lambda nn, parameters: self.module.train(nn, parameters, inputs))
        self._values = outputs.get(columns.VF_PREDS)
        self._output = outputs[columns.ACTION_DIST_INPUTS]
        return self._output, [outputs[columns.STATE_OUT][name] for name in names]

    def __call__(
        self, input_dict: Mapping[str, Any], state: Sequence[Any] | None = None, seq_lens: Any = None
    ) -> tuple[Any, list[Any]]:
        """Return what `from_batch` does, for inputs and what was remembered before."""
        remembered = {f"{columns.STATE_IN}_{index}": value for index, value in enumerate(state or [])}
        return self.from_batch({**input_dict, **remembered})

    def value_function(self) -> Any:
        """Return the values [N] of the observations of the last forward pass.

        Raises:
            ModuleError: If there was none, or the model has no value function.
        """
        if self._values is None:
            why = "there was no forward pass yet: call from_batch first" if self._output is None else self._no_values()
            raise ModuleError(f"value_function() has nothing to return: {why}")
        return self._values

    def last_output(self) -> Any:
        """Return what the last forward pass returned."""
        return self._output

    def get_initial_state(self) -> list[Any]:
        """Return what the model remembers at first, arrays without an axis of rows; empty where it has no memory."""
        return [first.copy() for first in self.module.initial_state().values()]

    def get_q_value_distributions(self, model_out: Any) -> list[Any]:
        """Return the advantages of actions [N, A], and the logits of their atoms [N, A, atoms], of features [N, F].

        Args:
            model_out: The features, or what `from_batch` returned: features and what is remembered.

        Raises:
            ModuleError: If this is no Q-model.
        """
        module = self._q_network("get_q_value_distributions")
        return list(self._evaluate(lambda nn, parameters: module.advantages(nn, parameters, _features(model_out))))

    def get_state_value(self, model_out: Any) -> Any:
        """Return the values of states [N, 1], or of all their atoms [N, atoms], of features [N, F].

        Args:
            model_out: The features, or what `from_batch` returned: features and what is remembered.

        Raises:
            ModuleError: If this is no Q-model, or one without a value of states (`dueling=False`).
        """
        module = self._q_network("get_state_value")
        return self._evaluate(lambda nn, parameters: module.state_values(nn, parameters, _features(model_out)))

    @property
    def base_model(self) -> NetworkSummary:
        """A summary of all layers; of a Q-model, of those before its heads."""
        return self._summary("base_model", "body" if isinstance(self.module, QNetwork) else "")

    @property
    def q_value_head(self) -> NetworkSummary:
        """The layers from features to advantages of actions, of a Q-model."""
        self._q_network("q_value_head")
        return self._summary("q_value_head", "advantage")

    @property
    def state_value_head(self) -> NetworkSummary:
        """The layers from features to the value of a state, of a Q-model."""
        self._q_network("state_value_head")
        return self._summary("state_value_head", "value")

    def variables(self, as_dict: bool = False) -> Any:
        """Return copies of all parameters, as a list in their order, or by their names."""
        found = self._evaluate(lambda nn, parameters: {name: nn.to_numpy(value) for name, value in parameters.items()})
        named = {name: np.array(value) for name, value in found.items()}
        return named if as_dict else list(named.values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        """Return copies of all parameters: all of them are trained."""
        return self.variables(as_dict)

    def _state(self, names: Sequence[str], batch: Mapping[str, Any], count: int) -> dict[str, Any]:
        found = {}
        for index, (name, first) in enumerate(self.module.initial_state().items()):
            given = batch.get(f"{columns.STATE_IN}_{index}")
            found[name] = self._convert(np.repeat(first[None], count, axis=0) if given is None else given)
        return found

    def _q_network(self, asked: str) -> QNetwork:
        if isinstance(self.module, QNetwork):
            return self.module
        raise ModuleError(
            f"{asked} is of Q-models, those of DQN and SimpleQ, but this model is a {type(self.module).__name__}"
        )

    def _no_values(self) -> str:
        return f"a {type(self.module).__name__} has no value function of its own"

    def _summary(self, name: str, below: str) -> NetworkSummary:
        shapes = {
            key: shape for key, shape in self.module.table.shapes().items() if not below or key.startswith(f"{below}/")
        }
        return NetworkSummary(name, shapes)


def _features(model_out: Any) -> Any:
    return model_out[0] if isinstance(model_out, tuple) else model_out


def _floats(values: Any) -> Any:
    return np.asarray(values, np.float32)


class NetworkSummary:
    """The layers of a network, and how many parameters they have."""

    def __init__(self, name: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Take the shapes of parameters by their names: what is before the last `/` is the layer."""
        self.name = name
        self._layers: dict[str, dict[str, tuple[int, ...]]] = {}
        for key, shape in shapes.items():
            layer, _, part = key.rpartition("/")
            self._layers.setdefault(layer, {})[part] = shape

    def count_params(self) -> int:
        """Return how many numbers all parameters are."""
        return sum(self._count(layer) for layer in self._layers)

    def summary(self, print_fn: Callable[[str], Any] = print) -> None:
        """Print a table of the layers, as Keras does; `print_fn` is called with each line."""
        rows = [(layer, self._shapes(layer), f"{self._count(layer):,}") for layer in self._layers]
        rows.insert(0, ("layer", "parameters", "number"))
        first, second = (max(len(row[column]) for row in rows) + 2 for column in (0, 1))
        lines = [f"{layer:<{first}}{shapes:<{second}}{count:>8}" for layer, shapes, count in rows]
        rule = "-" * max(map(len, lines))
        total = self.count_params()
        ends = [f"Total params: {total:,}", f"Trainable params: {total:,}", "Non-trainable params: 0"]
        for line in (f'Model: "{self.name}"', rule, lines[0], rule, *lines[1:], rule, *ends):
            print_fn(line)

    def _shapes(self, layer: str) -> str:
        return ", ".join(f"{part} {'x'.join(map(str, shape))}" for part, shape in self._layers[layer].items())

    def _count(self, layer: str) -> int:
        return sum(math.prod(shape) for shape in self._layers[layer].values())
