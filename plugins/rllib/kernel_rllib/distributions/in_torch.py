"""Distributions of the first generation, which users write as classes over tensors, as distributions like all others.

`dist_class(inputs, model)` is made for rows of inputs; then `sample()`, `logp(actions)` and the rest are asked. What is
drawn for a row depends on the noise of that row alone, as the generator of torch begins anew with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_rllib.distributions.distribution import Distribution, Noise, Numbers
from kernel_rllib.errors import ConfigError, MissingDependencyError, ModuleError
from kernel_rllib.spaces.action_rows import row_width

if TYPE_CHECKING:
    from typing_extensions import Self

    from kernel_rllib.nn.ops import Array, Ops

NEEDED = ("required_model_output_shape", "sample", "logp", "entropy")


class TorchDistribution(Distribution):
    """Wraps a distribution class over tensors of torch.

    Plain arrays pass row by row, so that a row gives the same bits in any company; tensors pass as they are, with
    gradients.
    """

    def __init__(self, given: Any, action_space: Any, model: Mapping[str, Any]) -> None:
        """Take a class.

        Args:
            given: The class.
            action_space: The action space of the environment.
            model: The options `model` of the config.

        Raises:
            ConfigError: If it lacks a method, or says no number of inputs.
            MissingDependencyError: If torch is not installed.
        """
        self._class: Any = given
        self._name = str(getattr(given, "__name__", type(given).__name__))
        missing = [name for name in NEEDED if not callable(getattr(given, name, None))]
        if missing or not isinstance(given, type):
            raise ConfigError(
                f"custom_action_dist is {given!r}, which lacks {', '.join(missing) or 'a constructor'}; give a class "
                "that is derived from TorchDistributionWrapper or ActionDistribution, or from kernel_rllib's "
                "Distribution"
            )
        _require_torch(self._name)
        options = {**model, "custom_options": dict(model.get("custom_model_config", {}))}
        self._size = self._asked_size(self._class.required_model_output_shape(action_space, options))
        self._space, self._width = action_space, row_width(action_space)
        self._model: Any = SimpleNamespace(
            num_outputs=self._size, model_config=options, action_space=action_space, name="default_model"
        )
        self._network: Any = None

    @property
    def discrete(self) -> bool:
        """Whether rows of actions are integers."""
        return any(each.__name__ in ("Discrete", "MultiDiscrete", "MultiBinary") for each in type(self._space).__mro__)

    @property
    def parameter_size(self) -> int:
        """The number of inputs that the class asks for."""
        return self._size

    @property
    def action_size(self) -> int:
        """The number of numbers in a row of actions."""
        return self._width

    @property
    def noise(self) -> Noise:
        """Two numbers, of which the generator of torch begins."""
        return Noise("uniform", 2)

    @property
    def learns_in(self) -> str:
        """Torch."""
        return "torch"

    def with_module(self, module: Any) -> Self:
        """Return this distribution, whose `model` is the network that a module runs, where it runs one of torch."""
        made = copy(self)
        made._network = getattr(module, "network", None) if getattr(module, "learns_in", None) == "torch" else None
        return made

    def sample(self, nn: Ops, inputs: Array, noise: Array) -> Array:
        """Return a draw for each row."""
        import torch

        seeds = [int(np.random.SeedSequence(row.view(np.uint32)).generate_state(1)[0]) for row in _plain(nn, noise)]
        given, generator = _tensor(inputs), torch.default_generator
        drawn, before = [], generator.get_state()
        try:
            with torch.no_grad():
                for number, seed in enumerate(seeds):
                    generator.manual_seed(seed)  # of the CPU alone: torch.manual_seed costs 100 times as much
                    drawn.append(self._rows(self._of(given[number : number + 1]).sample(), 1))
        finally:
            generator.set_state(before)
        found = torch.cat(drawn)
        return found.to(given.device) if given is inputs else found.numpy()

    def mode(self, nn: Ops, inputs: Array) -> Array:
        """Return what the class samples where nothing is explored. Raises ModuleError if it does not say that."""

        def best(made: Any, count: int, _: Any) -> Any:
            try:
                sampled = made.deterministic_sample()
            except (AttributeError, NotImplementedError) as error:
                raise ModuleError(
                    f"{self._name} says no action to take where nothing is explored ({error}); define "
                    "deterministic_sample(self), or explore in evaluations too"
                ) from error
            return self._rows(sampled, count)

        return self._each(inputs, best)

    def log_prob(self, nn: Ops, inputs: Array, actions: Array) -> Array:
        """Return the log-probabilities of actions."""
        return self._each(inputs, lambda made, count, rows: self._numbers("logp", made.logp(rows), count), actions)

    def entropy(self, nn: Ops, inputs: Array) -> Array:
        """Return the entropies."""
        return self._each(inputs, lambda made, count, _: self._numbers("entropy", made.entropy(), count))

    def kl(self, nn: Ops, inputs: Array, other_inputs: Array) -> Array:
        """Return the divergences. Raises ModuleError if the class does not say them."""

        def divergence(made: Any, count: int, others: Any) -> Any:
            try:
                found = made.kl(self._of(others))
            except (AttributeError, NotImplementedError) as error:
                raise ModuleError(
                    f"{self._name} gives no divergence from another, which this algorithm learns with ({error}); "
                    "define kl(self, other), or set kl_coeff to 0"
                ) from error
            return self._numbers("kl", found, count)

        return self._each(inputs, divergence, other_inputs)

    def _each(self, inputs: Array, function: Callable[..., Any], other: Any = None) -> Any:
        """Return what `function(made, count, rows of other)` gives: for all rows of a tensor, or row by row."""
        import torch

        if not isinstance(inputs, (np.ndarray, torch.Tensor)):
            raise ModuleError(
                f"{self._name} computes in torch, and can't be played by numpy alone: export the checkpoint of the "
                "policy (export_policy_checkpoint)"
            )
        given, further = _tensor(inputs), None if other is None else _tensor(other)
        if given is inputs:
            return function(self._of(given), len(given), further)
        with torch.no_grad():
            found = [
                function(self._of(given[row : row + 1]), 1, None if further is None else further[row : row + 1])
                for row in range(len(given))
            ]
        return torch.cat(found).numpy()

    def _of(self, inputs: Any) -> Any:
        network = self._network.network if self._network is not None else self._model
        return self._class(inputs, network)

    def _rows(self, sampled: Any, count: int) -> Any:
        """Return what the class sampled as rows of actions."""
        import torch

        parts = list(_parts(sampled))
        if not all(isinstance(part, torch.Tensor) and len(part) == count for part in parts):
            raise ModuleError(
                f"{self._name} sampled {sampled!r}, and a tensor of {count} actions was expected, or one for each "
                "part of the action space"
            )
        flat = [part.reshape(count, -1) for part in parts]
        width = sum(part.shape[1] for part in flat)
        if width != self._width:
            raise ModuleError(
                f"{self._name} sampled {width} numbers for an action, but {self._space} has {self._width}; return "
                "tensors [N, ...] of actions as the space has them"
            )
        if len(flat) > 1:
            return torch.cat([part.to(torch.float32) for part in flat], dim=1)
        if not self.discrete:
            return flat[0].to(torch.float32)
        return flat[0].to(torch.int64).reshape(count, *([self._width] if getattr(self._space, "shape", ()) else []))

    def _numbers(self, method: str, found: Any, count: int) -> Any:
        """Return what a method gave, one number a row."""
        if not hasattr(found, "shape") or tuple(found.shape) != (count,):
            given = list(found.shape) if hasattr(found, "shape") else type(found).__name__
            raise ModuleError(
                f"{self._name}.{method}() returned {given} for {count} rows, and a tensor of [{count}] was expected: "
                "one number for each row, summed over the parts of an action"
            )
        return found

    def _asked_size(self, shape: Any) -> int:
        numbers = np.asarray(shape)
        if numbers.dtype.kind not in "iu" or (numbers < 1).any():
            raise ConfigError(
                f"{self._name}.required_model_output_shape() returned {shape!r}, and a number of inputs from 1 on was "
                "expected"
            )
        return int(numbers.prod())


def _parts(sampled: Any) -> Sequence[Any]:
    """Return the tensors that a sample consists of: those of a tuple, of a dict, or of `TupleActions`, in order."""
    if isinstance(sampled, Mapping):
        sampled = tuple(sampled.values())
    sampled = getattr(sampled, "batches", sampled)
    if isinstance(sampled, (list, tuple)):
        return [leaf for part in sampled for leaf in _parts(part)]
    return [sampled]


def _plain(nn: Ops, noise: Any) -> Numbers:
    found: Numbers = np.ascontiguousarray(nn.to_numpy(noise), np.float32)
    return found


def _tensor(value: Any) -> Any:
    import torch

    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))


def _require_torch(name: str) -> None:
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            f"the distribution {name} needs the library 'torch', which can't be imported ({error}). "
            "Run: pip install 'kernel-rllib[torch]', or derive it from kernel_rllib.distributions.Distribution, in "
            "operations of any backend"
        ) from error
