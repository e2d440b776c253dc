"""The module of SlateQ: of each document what consuming it is worth in the long run, and how likely it is consumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.modules.contracts import QModule
from kernel_rllib.modules.layers import Stack, torch_stack
from kernel_rllib.modules.module import Inputs, Outputs, Parameter, Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.spaces.flatten import flat_size

CHOICE_LOGITS = "choice_logits"
"""The output [N, documents + 1]: how much users are drawn to each document, and to none, which is the last one."""
VALUE, CHOICE = "value", "choice"
"""The prefixes of the names of the parameters of the two networks."""


@dataclass(frozen=True)
class SlateLayout:
    """The columns of users, documents and clicks in a flat observation.

    Attributes:
        documents: The number of documents to choose from.
        size: The number of documents in a slate.
        user: The columns of the user.
        doc: The columns of all documents, one after the other.
        clicks: The columns that say of each place of the last slate whether it was clicked on.
    """

    documents: int
    size: int
    user: tuple[int, int]
    doc: tuple[int, int]
    clicks: tuple[int, ...]

    @classmethod
    def of(cls, observation: spaces.Space[Any], action: spaces.Space[Any]) -> SlateLayout:
        """Return where things are in what an environment of slates observes.

        Args:
            observation: A Dict of `user`, a Box; `doc`, a Dict of equal Boxes, one for each document, or a Box with a
                row for each; `response`, a Tuple with a Dict for each place of a slate, whose `click` is Discrete(2).
            action: A MultiDiscrete: for each place of a slate, the number of a document.

        Raises:
            ModuleError: If the spaces are others.
        """
        if not isinstance(action, spaces.MultiDiscrete) or action.nvec.ndim != 1 or len(set(action.nvec.tolist())) != 1:
            raise ModuleError(
                f"a slate is an action of MultiDiscrete([documents] * size), but the environment takes {action}"
            )
        documents, size = int(action.nvec[0]), len(action.nvec)
        parts = observation.spaces if isinstance(observation, spaces.Dict) else {}
        missing = [name for name in ("user", "doc", "response") if name not in parts]
        if missing:
            raise ModuleError(
                f"observations of slates are a Dict of user, doc and response, but {', '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing in {observation}"
            )
        places, start = {}, 0
        for name, part in parts.items():
            places[name] = (start, start + flat_size(part))
            start += flat_size(part)
        _check_documents(parts["doc"], documents)
        clicks = _clicks(parts["response"], places["response"][0], size)
        return cls(documents, size, places["user"], places["doc"], clicks)

    @property
    def features(self) -> int:
        """The number of numbers of a document."""
        return (self.doc[1] - self.doc[0]) // self.documents

    def pairs(self, obs: Array) -> Array:
        """Return users beside documents, and beside none, which is the last row [N, documents + 1, F].

        Args:
            obs: Observations [N, width].
        """
        rows, width = len(obs), self.user[1] - self.user[0]
        found = np.zeros((rows, self.documents + 1, width + self.features + 1), np.float32)
        found[:, :, :width] = obs[:, None, slice(*self.user)]
        found[:, :-1, width:-1] = obs[:, slice(*self.doc)].reshape(rows, self.documents, self.features)
        found[:, -1, -1] = 1
        return found

    def clicked(self, obs: Array) -> Array:
        """Return the place of the last slate that was clicked on, or its size for none, for observations [N, width]."""
        clicks = obs[:, list(self.clicks)] > 0.5
        found: Array = np.where(clicks.any(axis=1), clicks.argmax(axis=1), self.size)
        return found


class SlateNetwork(QModule):
    """Two networks over a user and one document: its value, and how much the user is drawn to it."""

    def __init__(self, layout: SlateLayout, hidden: Sequence[int], activation: str = "relu") -> None:
        """Make them.

        Args:
            layout: The layout of observations.
            hidden: The widths of the hidden layers of each.
            activation: The name of the activation after each of these layers.
        """
        self.layout = layout
        inputs = layout.user[1] - layout.user[0] + layout.features + 1
        self._hidden = {name: torch_stack(name, inputs, hidden, activation) for name in (VALUE, CHOICE)}
        self._heads = {
            name: torch_stack(f"{name}/head", stack.outputs, [1], None) for name, stack in self._hidden.items()
        }

    def parameters(self) -> Sequence[Parameter]:
        """Return all parameters of both."""
        return [
            parameter
            for name in (VALUE, CHOICE)
            for stack in (self._hidden[name], self._heads[name])
            for parameter in stack.parameters()
        ]

    def train(self, nn: Ops, parameters: Parameters, inputs: Inputs) -> Outputs:
        """Return `q_values` and `choice_logits` [N, documents + 1]: of each document, and last of none."""
        pairs = self.layout.pairs(np.asarray(nn.to_numpy(inputs[columns.OBS])))
        shape, rows = pairs.shape[:2], nn.constant(pairs.reshape(-1, pairs.shape[2]))

        def outputs(name: str) -> Any:
            stacks: tuple[Stack, Stack] = self._hidden[name], self._heads[name]
            return nn.reshape(stacks[1](nn, parameters, stacks[0](nn, parameters, rows)), shape)

        return {columns.Q_VALUES: outputs(VALUE), CHOICE_LOGITS: outputs(CHOICE)}


def _check_documents(space: spaces.Space[Any], documents: int) -> None:
    """Raise ModuleError unless a space has as many documents, all with as many features."""
    if isinstance(space, spaces.Dict):
        sizes = [flat_size(each) for each in space.spaces.values()]
        if len(sizes) == documents and len(set(sizes)) == 1:
            return
    elif isinstance(space, spaces.Box) and len(space.shape) == 2 and space.shape[0] == documents:
        return
    raise ModuleError(
        f"actions choose from {documents} documents, so observations['doc'] is a Dict of as many equal Boxes, or a Box "
        f"with as many rows, but it is {space}"
    )


def _clicks(space: spaces.Space[Any], start: int, size: int) -> tuple[int, ...]:
    """Return where in a flat observation it is said of each place of a slate that it was clicked on."""
    found = []
    for response in space.spaces if isinstance(space, spaces.Tuple) else ():
        for name, part in response.spaces.items() if isinstance(response, spaces.Dict) else ():
            if name == "click" and isinstance(part, spaces.Discrete) and part.n == 2:
                found.append(start + 1)  # one-hot: no, yes
            start += flat_size(part)
    if len(found) != size:
        raise ModuleError(
            f"a slate has {size} documents, so observations['response'] is a Tuple of as many Dicts, whose 'click' is "
            f"Discrete(2), but it is {space}"
        )
    return tuple(found)
