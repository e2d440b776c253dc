"""Policies that are a loss in torch: what `build_torch_policy` returns.

The model is the built-in actor-critic that the options `model` describe. Its parameters are leaves of torch that are
the learner's vector: a step of the optimizer changes what runners get.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space

from kernel_rllib.algorithms.on_policy import actor_critic
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.preprocessors import preprocessor_of
from kernel_rllib.data import columns
from kernel_rllib.distributions.of_users import distribution_of
from kernel_rllib.errors import ConfigError, MissingDependencyError, NumericError
from kernel_rllib.first_generation.policy import Policy
from kernel_rllib.nn import philox
from kernel_rllib.policy.action_distribution import distribution_class
from kernel_rllib.policy.model import PolicyModel
from kernel_rllib.spaces.action_rows import actions_of

_OWN_MODEL = "the model is the built-in one that config['model'] describes"
REFUSED = {
    "make_model": _OWN_MODEL,
    "make_model_and_action_dist": _OWN_MODEL,
    "action_sampler_fn": "actions are drawn from dist_class of the model's outputs",
    "action_distribution_fn": "the distribution is that of the action space, over the model's outputs",
}
"""Functions that are refused, and the reasons."""


@dataclass(frozen=True)
class TorchFunctions:
    """Holds the functions that a policy is made of.

    Attributes:
        loss_fn: Called with (policy, model, dist_class, train_batch), returns a tensor of one number, or one for each
            optimizer.
        get_default_config: Returns settings that hold where others are not given.
        stats_fn: Called with (policy, train_batch) after a step, returns what is reported.
        postprocess_fn: Called with (policy, sample_batch, other_agent_batches, episode), returns what is learned from.
        extra_action_out_fn: Called with (policy, input_dict, state_batches, model), returns further columns.
        extra_grad_process_fn: Called with (policy, optimizer, loss) when gradients are there, returns what is reported.
        optimizer_fn: Called with (policy, config), returns an optimizer of torch over `policy.model.parameters()`.
        before_init: Called with (policy, observation_space, action_space, config) first.
        after_init: Called with the same last.
        apply_gradients_fn: Called with (policy, gradients) in place of the optimizer's step.
        get_batch_divisibility_req: Accepted; batches are not split among devices.
    """

    loss_fn: Callable[..., Any]
    get_default_config: Callable[[], Mapping[str, Any]] | None = None
    stats_fn: Callable[..., Mapping[str, Any]] | None = None
    postprocess_fn: Callable[..., Any] | None = None
    extra_action_out_fn: Callable[..., Mapping[str, Any]] | None = None
    extra_grad_process_fn: Callable[..., Mapping[str, Any]] | None = None
    optimizer_fn: Callable[..., Any] | None = None
    before_init: Callable[..., Any] | None = None
    after_init: Callable[..., Any] | None = None
    apply_gradients_fn: Callable[..., Any] | None = None
    get_batch_divisibility_req: Callable[..., Any] | None = None


class TorchPolicy(Policy):
    """A policy whose loss is a function of tensors. Make one by `build_torch_policy`.

    Attributes:
        model: The model; `model.from_batch(train_batch)` gives logits, then `model.value_function()` the values.
        dist_class: `dist_class(logits, model)` is the distribution of actions.
        device: The CPU.
    """

    _functions: ClassVar[TorchFunctions]

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: Mapping[str, Any]) -> None:
        """Make the model, with parameters drawn by the config's `seed`.

        Raises:
            MissingDependencyError: If torch is not installed.
        """
        functions = self._functions
        defaults = functions.get_default_config() if functions.get_default_config else {}
        super().__init__(observation_space, action_space, {**_common(), **defaults, **config})
        arguments = (observation_space, action_space, self.config)
        self._call("before_init", *arguments)
        torch = _torch(type(self).__name__)
        from kernel_rllib.nn.torch_ops import TorchOps  # here: it needs torch

        self.device, self.lock = torch.device("cpu"), threading.RLock()
        self._nn = TorchOps()
        settings = AlgorithmConfig.from_dict({"model": self.config["model"]}, generation="0.8.5")
        if settings.model.custom_model is not None:
            raise ConfigError(
                f"{type(self).__name__}: model['custom_model'] is {settings.model.custom_model!r}, but a policy of "
                "build_torch_policy has the networks that the model's other settings describe; take a trainer such as "
                "PPOTrainer for a model of your own"
            )
        preprocessor = preprocessor_of(observation_space, self.config["preprocessor_pref"], settings.model.to_dict())
        self.distribution = distribution_of(action_space, settings.model.to_dict())
        self.module = actor_critic(settings, preprocessor.shape, self.distribution)
        stream = self._stream()
        self.dist_class = distribution_class(self.distribution, stream)
        self.bind(self.module.initial(stream))
        for mixin in type(self)._mixins:
            _prepare(mixin, self, arguments)
        self._call("after_init", *arguments)

    _mixins: ClassVar[tuple[type, ...]] = ()

    def bind(self, vector: Any) -> None:
        """Let these be the parameters [size], an array or tensor on the CPU; optimizers change them in place."""
        torch = _torch(type(self).__name__)
        self._vector = vector = torch.as_tensor(vector)
        views = self.module.table.views(vector)
        self._leaves = {name: view.detach().requires_grad_() for name, view in views.items()}
        self.model = TorchModel(self.module, lambda function: function(self._nn, self._leaves), self._tensor)
        self.model._leaves = self._leaves
        made = self._call("optimizer_fn", self.config)
        if made is None:
            made = torch.optim.Adam(self._leaves.values(), lr=self.config["lr"])
        self._optimizers = list(made) if isinstance(made, (list, tuple)) else [made]

    @property
    def vector(self) -> Array:
        """The vector of all parameters [size], which optimizers change in place."""
        found: Array = self._vector.numpy()
        return found

    # -- acting -------------------------------------------------------------------------------------------------------

    def _actions_for(
        self, obs_batch: Any, state_batches: Sequence[Any] | None, explore: bool | None
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return actions [N, ...], what is remembered, and `action_logp` and further columns."""
        torch = _torch(type(self).__name__)
        explore = bool(self.config["explore"]) if explore is None else explore
        with torch.no_grad():
            logits, states = self.model({columns.OBS: obs_batch}, state_batches)
            dist = self.dist_class(logits, self.model)
            rows = dist.sample() if explore else dist.deterministic_sample()
            extra = {columns.ACTION_LOGP: dist.logp(rows), columns.ACTION_DIST_INPUTS: logits}
        extra |= self.further_columns({columns.OBS: obs_batch}, state_batches or [])
        return (
            actions_of(self.action_space, self._nn.to_numpy(rows)),
            [self._nn.to_numpy(state) for state in states],
            {name: self._nn.to_numpy(value) for name, value in extra.items()},
        )

    def further_columns(self, input_dict: Mapping[str, Any], state_batches: Sequence[Any] = ()) -> dict[str, Array]:
        """Return the columns that `extra_action_out_fn` gives for observations, after a forward pass over them."""
        if self._functions.extra_action_out_fn is None:
            return {}
        with _torch(type(self).__name__).no_grad():
            tensors = {name: self._tensor(value) for name, value in input_dict.items()}
            self.model(tensors, state_batches)
            found = self._functions.extra_action_out_fn(self, tensors, list(state_batches), self.model)
        return {name: self._nn.to_numpy(value) for name, value in found.items()}

    # -- learning -----------------------------------------------------------------------------------------------------

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        """Return what is learned from, for a piece of one episode."""
        if self._functions.postprocess_fn is None:
            return sample_batch
        return self._functions.postprocess_fn(self, sample_batch, other_agent_batches, episode)

    def learn_on_batch(self, samples: Mapping[str, Any]) -> dict[str, Any]:
        """Make a step down the gradient of the loss, and return what is reported of it.

        Raises:
            NumericError: If the loss is not finite; the parameters are those of before.
        """
        batch = TensorBatch(samples, self._tensor)
        stats: dict[str, Any] = {}
        for optimizer, loss in zip(self._optimizers, self._losses(batch), strict=True):
            stats |= self._differentiated(optimizer, loss)
            self._applied([optimizer])
        return self._report(batch, stats)

    def compute_gradients(self, postprocessed_batch: Mapping[str, Any]) -> tuple[list[Array | None], dict[str, Any]]:
        """Return the gradients of the losses together, by parameter, and what is reported; parameters stay as they are.

        Returns:
            An array for each of `model.parameters()`, or None where no loss depends on it; and the report.

        Raises:
            NumericError: If a loss is not finite.
        """
        batch = TensorBatch(postprocessed_batch, self._tensor)
        stats: dict[str, Any] = {}
        total: list[Any] = [None] * len(self._leaves)
        for optimizer, loss in zip(self._optimizers, self._losses(batch), strict=True):
            stats |= self._differentiated(optimizer, loss)
            owned = {id(each) for group in optimizer.param_groups for each in group["params"]}
            for place, leaf in enumerate(self._leaves.values()):
                if id(leaf) in owned and leaf.grad is not None:
                    found = self._nn.to_numpy(leaf.grad).copy()
                    total[place] = found if total[place] is None else total[place] + found
        return total, self._report(batch, stats)

    def apply_gradients(self, gradients: Sequence[Any]) -> None:
        """Let all optimizers make a step along what `compute_gradients` returned.

        Raises:
            ConfigError: If these are not as many as the model has parameters.
        """
        if len(gradients) != len(self._leaves):
            raise ConfigError(
                f"{type(self).__name__} was given {len(gradients)} gradients, but its model has {len(self._leaves)} "
                "parameters: give what compute_gradients() returned first"
            )
        for leaf, gradient in zip(self._leaves.values(), gradients, strict=True):
            leaf.grad = None if gradient is None else self._tensor(gradient).clone()
        self._applied(self._optimizers)

    # -- parameters ---------------------------------------------------------------------------------------------------

    def get_weights(self) -> dict[str, Array]:
        """Return copies of all parameters by their names."""
        return {name: leaf.detach().numpy().copy() for name, leaf in self._leaves.items()}

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Go on with what `get_weights` returned. Raises ModuleError if it is of another model."""
        self._vector.copy_(self._nn.constant(self.module.table.vector(weights)))

    def get_initial_state(self) -> list[Any]:
        """Return what the model remembers at first."""
        return self.model.get_initial_state()

    def optimizer_state(self) -> dict[str, Any]:
        """Return what each optimizer remembers of each parameter, as arrays and numbers."""
        return {
            str(number): {
                str(place): {name: self._plain_state(value) for name, value in kept.items()}
                for place, kept in optimizer.state_dict()["state"].items()
            }
            for number, optimizer in enumerate(self._optimizers)
        }

    def set_optimizer_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `optimizer_state` returned."""
        for number, optimizer in enumerate(self._optimizers):
            whole = optimizer.state_dict()
            whole["state"] = {
                int(place): {name: self._tensor(value) for name, value in kept.items()}
                for place, kept in state.get(str(number), {}).items()
            }
            optimizer.load_state_dict(whole)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _losses(self, batch: TensorBatch) -> list[Any]:
        """Return a loss for each optimizer."""
        found = self._functions.loss_fn(self, self.model, self.dist_class, batch)
        losses = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(losses) != len(self._optimizers):
            raise ConfigError(
                f"the loss of {type(self).__name__} returned {len(losses)} numbers, but there are "
                f"{len(self._optimizers)} optimizers: return one for each"
            )
        return losses

    def _differentiated(self, optimizer: Any, loss: Any) -> dict[str, Any]:
        """Put the gradient of a loss into the parameters of its optimizer, and return what is reported of it."""
        value = loss.item()
        if not np.isfinite(value):
            raise NumericError(
                f"the loss of {type(self).__name__} is {value}: look at what it computes, and at the rewards and "
                "observations of the batch. The parameters are those of before."
            )
        optimizer.zero_grad()
        loss.backward()
        info = self._call("extra_grad_process_fn", optimizer, loss) or {}
        return {"total_loss": value, **{name: self._plain(each) for name, each in info.items()}}

    def _applied(self, optimizers: Sequence[Any]) -> None:
        """Make steps along the gradients that parameters have."""
        if self._functions.apply_gradients_fn is not None:
            self._functions.apply_gradients_fn(self, [leaf.grad for leaf in self._leaves.values()])
            return
        for optimizer in optimizers:
            optimizer.step()

    def _report(self, batch: TensorBatch, stats: Mapping[str, Any]) -> dict[str, Any]:
        told = self._call("stats_fn", batch) or {}
        return {"learner_stats": {**stats, **{name: self._plain(value) for name, value in told.items()}}}

    def _call(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._functions, name)
        return None if function is None else function(self, *arguments)

    def _stream(self) -> np.random.Generator:
        seed = self.config.get("seed")
        return np.random.default_rng() if seed is None else philox.stream(int(seed), "torch policy")

    def _tensor(self, values: Any) -> Any:
        if type(values).__module__.partition(".")[0] == "torch":
            return values
        array = np.asarray(values)
        return array if array.dtype == object else self._nn.constant(array)

    def _plain(self, value: Any) -> Any:
        return value.item() if getattr(value, "ndim", None) == 0 else value

    def _plain_state(self, value: Any) -> Any:
        return self._nn.to_numpy(value).copy() if hasattr(value, "detach") else value


class TorchModel(PolicyModel):
    """The model of a policy in torch, whose parameters optimizers can be made for."""

    _leaves: Mapping[str, Any]

    def parameters(self) -> Iterable[Any]:
        """Return all parameters: tensors that are leaves."""
        return list(self._leaves.values())

    def named_parameters(self) -> Iterable[tuple[str, Any]]:
        """Return all parameters with their names."""
        return list(self._leaves.items())

    def __call__(self, input_dict: Mapping[str, Any], state: Any = None, seq_lens: Any = None) -> tuple[Any, list[Any]]:
        """Return what `from_batch` does, for inputs and what was remembered before."""
        return super().__call__(input_dict, state, seq_lens)


class TensorBatch(dict[str, Any]):
    """The columns of a batch as tensors; what is no number stays an array."""

    def __init__(self, batch: Mapping[str, Any], tensor: Callable[[Any], Any]) -> None:
        """Make tensors of all columns."""
        super().__init__({name: tensor(column) for name, column in batch.items()})

    @property
    def count(self) -> int:
        """The number of rows."""
        return next((len(column) for column in self.values()), 0)


def build_torch_policy(
    name: str, *, loss_fn: Callable[..., Any], mixins: Iterable[type] | None = None, **more: Any
) -> Any:
    """Return a class of policies that learn by a loss.

    Args:
        name: The name of the class.
        loss_fn: Called with (policy, model, dist_class, train_batch), returns a tensor of one number.
        mixins: Classes that it is derived from besides, the first one first.
        more: The attributes of `TorchFunctions`.

    Raises:
        ConfigError: If something is given that there is no place for.
    """
    given = {key: value for key, value in more.items() if value is not None}
    for key in given:
        if key in REFUSED:
            raise ConfigError(f"build_torch_policy({key}=) can't be honoured: {REFUSED[key]}")
        if key not in TorchFunctions.__dataclass_fields__:
            raise ConfigError(f"build_torch_policy() has no argument {key!r}")
    return _policy_class(name, tuple(mixins or ()), TorchFunctions(loss_fn, **given))


def _policy_class(name: str, mixins: tuple[type, ...], functions: TorchFunctions) -> Any:
    def with_updates(**overrides: Any) -> Any:
        """Return a class that is like this one but for a name, mixins or functions."""
        own = {"name": overrides.pop("name", name), "mixins": tuple(overrides.pop("mixins", mixins))}
        return _policy_class(own["name"], own["mixins"], replace(functions, **overrides))

    body = {
        "_functions": functions,
        "_mixins": mixins,
        "with_updates": staticmethod(with_updates),
        "__doc__": f"The policy {name}, which learns by {getattr(functions.loss_fn, '__name__', 'a loss')}.",
    }
    return type(name, (*mixins, TorchPolicy), body)


def _prepare(mixin: type, policy: TorchPolicy, arguments: tuple[Any, ...]) -> None:
    """Call the `__init__` of a mixin with what it takes: the spaces and the config, or less."""
    initialise: Any = mixin.__dict__.get("__init__")
    if initialise is not None:
        count = initialise.__code__.co_argcount - 1
        initialise(policy, *arguments[:count])


def _common() -> dict[str, Any]:
    return {**AlgorithmConfig.default_dict("0.8.5")}


def _torch(name: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} is a loss in torch, which can't be imported ({error}). Run: pip install 'kernel-rllib[torch]'"
        ) from error
    return torch
