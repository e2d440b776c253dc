"""A backend computes losses and networks, their gradients, and the steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from kernel_rllib.errors import ModuleError
from kernel_rllib.nn.ops import Array, Ops
from kernel_rllib.nn.optimizers import Optimizer
from kernel_rllib.nn.parameters import ParameterTable, matches

Params: TypeAlias = Mapping[str, Array]
Loss: TypeAlias = Callable[[Ops, Params], tuple[Array, Mapping[str, Any]]]
"""Returns a number that is to be made small, and metrics by name."""


class Backend(Protocol):
    """Computes with vectors of parameters. One thread at a time may use it: memory is used again from call to call."""

    name: str

    def vector(self, values: Any) -> Any:
        """Return a copy of `values` [size] as a vector of parameters (float32, or float64 where they are) of its own
        kind."""

    def to_numpy(self, vector: Any) -> Any:
        """Return a vector or a gradient as a numpy array, which may be the same memory."""

    def evaluate(self, function: Callable[[Ops, Params], Any], vector: Any, table: ParameterTable) -> Any:
        """Return `function(nn, params)`, computed without gradients; values in it come back as numpy arrays.

        Infinite and undefined numbers pass without a warning.
        """

    def gradient(
        self, loss: Loss, vector: Any, table: ParameterTable, trainable: Sequence[str] | None = None
    ) -> tuple[dict[str, Any], Any]:
        """Return the metrics of a loss, and its gradient by all numbers of `vector` [table.size].

        `loss(nn, params)` returns a number and metrics by name. Only parameters below one of the prefixes `trainable`
        get a gradient; the others are constants, that of which is zero, and cost nothing. The gradient is the same
        array at each call with the same table and prefixes: what is to outlive the next call must be copied. Metrics
        come back as floats, those with axes as numpy arrays of their own. Values that the loss keeps elsewhere are good
        only until it returns, except for what `nn.to_numpy` and `nn.stop_gradient` gave it.

        Infinite and undefined numbers pass without a warning. Raises ModuleError where the loss is no number, or
        depends on no parameter that a gradient is asked for.
        """

    def optimizer(self, name: str, size: int, **settings: Any) -> Optimizer:
        """Return an optimizer of vectors of this backend; see `optimizers.py` for names and settings."""


def trained(table: ParameterTable, trainable: Sequence[str] | None) -> list[str]:
    """Return the names of the parameters that a gradient is asked for; raise ModuleError where there are none."""
    names = [name for name in table if trainable is None or any(matches(name, prefix) for prefix in trainable)]
    if not names:
        raise ModuleError(
            f"a gradient was asked for by the parameters below {', '.join(trainable or ()) or 'no prefix'}, and there "
            f"are none: there are {', '.join(table) or 'no parameters at all'}"
        )
    return names


def forget_oldest(plans: dict[Any, Any], most: int = 64) -> None:
    """Make room for one more: who makes tables all the time shall not pile up what belongs to each."""
    while len(plans) >= most:
        del plans[next(iter(plans))]


def no_dependence(names: Iterable[str]) -> ModuleError:
    """Return the error of a loss that is a constant."""
    return ModuleError(
        f"the loss depends on none of the parameters that a gradient is asked for: {', '.join(names)}. Compute it with "
        "`nn` from `params`, not from arrays kept elsewhere"
    )


def not_a_number(shape: tuple[int, ...]) -> ModuleError:
    """Return the error of a loss that has axes."""
    return ModuleError(f"the loss has shape {shape}, and must be one number: take its mean or its sum")
