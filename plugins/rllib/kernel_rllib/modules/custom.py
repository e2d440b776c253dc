"""From a model of the user's own to a module: what it is, how it is made, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from gymnasium.spaces import Box

from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.modules.contracts import PolicyModule, QModule
from kernel_rllib.modules.module import Module
from kernel_rllib.modules.previous_step import PreviousStep
from kernel_rllib.modules.registry import model_named
from kernel_rllib.modules.rl_module_spec import RLModuleSpec
from kernel_rllib.spaces.action_rows import row_space
from kernel_rllib.spaces.flatten import Flattener


@dataclass(frozen=True)
class CustomModel:
    """Holds a model of the user's own, with its arguments.

    Attributes:
        given: Its class, a function that makes one, or a network of torch as it is.
        observation_space: The observation space of the environment.
        action_space: The action space.
        observation: The shape of one row of observations, as connectors give it.
        outputs: The number of outputs for each row.
        options: The options `model` of the config.
        arguments: The user's arguments.
        seed: The seed of its initial parameters.
        previous: The parts of the last step in these rows; None for none. Models of the first generation are told of
            observations without it.
    """

    given: Any
    observation_space: Any
    action_space: Any
    observation: tuple[int, ...]
    outputs: int
    options: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    previous: PreviousStep | None = None

    def policy_module(self) -> PolicyModule:
        """Return the module of a policy-gradient algorithm.

        Raises:
            ConfigError: If it can't be one.
        """
        made = self.made()
        if isinstance(made, Module):
            _require(made, PolicyModule)
            return cast(PolicyModule, made)
        from kernel_rllib.modules.torch_module import TorchPolicyModule

        return TorchPolicyModule(made, self.outputs, self._unflatten(), self._taken_apart())

    def q_module(self) -> QModule:
        """Return the module of an algorithm that learns values of actions. Raises ConfigError if it can't be one."""
        made = self.made()
        if isinstance(made, Module):
            _require(made, QModule)
            return cast(QModule, made)
        from kernel_rllib.modules.torch_calls import initial_state_of
        from kernel_rllib.modules.torch_module import TorchQModule

        if initial_state_of(made):
            raise ConfigError(
                f"{_name(made)} has an initial state, and this algorithm replays single steps, from which no memory is "
                "learned; take PPO, A2C or PG for it, or stack frames"
            )
        return TorchQModule(made, self.outputs, self._unflatten())

    def made(self, name: str = "default_model") -> Any:
        """Return the model as it is: a `Module`, or a network of torch.

        Args:
            name: The name that a model of the first generation gets.

        Raises:
            ConfigError: If it can't be made, or is no model that can be learned.
            MissingDependencyError: If it needs torch, which is not installed.
        """
        given, made = self.given, cast(Any, None)
        if isinstance(given, type) and issubclass(given, Module):
            return self._called(given)
        _refuse_tensorflow(given)
        try:
            import torch

            from kernel_rllib.modules.model_v2 import TorchModelV2
            from kernel_rllib.modules.rl_module import TorchRLModule
        except ImportError as error:
            raise MissingDependencyError(
                f"the model {_name(given)} needs the library 'torch', which can't be imported ({error}). "
                "Run: pip install 'kernel-rllib[torch]', or write the model as a kernel_rllib.Module, in numpy"
            ) from error
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            if isinstance(given, type) and issubclass(given, TorchModelV2):
                names = (self._observed(), self.action_space, self.outputs, dict(self.options), name)
                made = given(*names, **_accepted(given, self.arguments))  # type: ignore[call-arg]
            elif isinstance(given, type) and issubclass(given, TorchRLModule):
                made = given(self.observation_space, self.action_space, self.arguments or dict(self.options))
            else:
                made = given if isinstance(given, torch.nn.Module) else self._called(given)
        if isinstance(made, Module):
            return made
        if not isinstance(made, torch.nn.Module):
            raise ConfigError(
                f"{_name(given)} made {made!r}, which is no model: a torch.nn.Module (of which a TorchModelV2 is to "
                "be one too), a TorchRLModule or a kernel_rllib.Module was expected"
            )
        return made

    def _called(self, given: Any) -> Any:
        told = {
            "observation_space": self.observation_space, "obs_space": self.observation_space,
            "action_space": self.action_space, "num_outputs": self.outputs, "observation_shape": self.observation,
            "model_config": dict(self.options),
        }  # fmt: skip
        asked = _asked(given)
        arguments = {name: value for name, value in told.items() if name in asked} | dict(self.arguments)
        try:
            return given(**arguments)
        except TypeError as error:
            raise ConfigError(
                f"{_name(given)} can't be made with {', '.join(arguments) or 'no arguments'}: {error}. It is given "
                f"what custom_model_config has, and of {', '.join(told)} those that its constructor names"
            ) from error

    def _taken_apart(self) -> PreviousStep | None:
        """Return what of the last step the model finds beside observations, and not in them."""
        bases = self.given.__mro__ if isinstance(self.given, type) else ()
        return self.previous if any(base.__name__ == "TorchModelV2" for base in bases) else None

    def _seen(self) -> tuple[int, ...]:
        """Return the shape of observations, as the model gets it."""
        previous = self._taken_apart()
        return self.observation if previous is None else (self.observation[0] - previous.width,)

    def _observed(self) -> Any:
        shape = self._seen()
        if self.observation_space.shape == shape:
            return self.observation_space
        space = Box(-float("inf"), float("inf"), shape)
        space.original_space = self.observation_space  # type: ignore[attr-defined]
        return space

    def _unflatten(self) -> Any:
        shape = self._seen()
        if len(shape) == 3:
            return _as_they_are
        flattener = Flattener(self.observation_space)
        return _Parts(flattener) if shape == (flattener.size,) else _as_they_are


def custom_model_of(
    config: Any, observation_space: Any, action_space: Any, observation: tuple[int, ...], outputs: int, seed: int
) -> CustomModel | None:
    """Return the model of the user's own that settings name, or None where they name none.

    The arguments after the first are attributes of `CustomModel`.

    Raises:
        ConfigError: If none has the name that is given, or two were given.
    """
    model, spec = config.model, config.rl_module_spec
    if model.custom_model is not None and spec is not None:
        raise ConfigError(f"{config.title}: custom_model and rl_module_spec both name a model; give one of them")
    arguments: Any = model.custom_model_config
    given = model.custom_model
    if spec is not None:
        if not isinstance(spec, RLModuleSpec) or spec.module_class is None:
            raise ConfigError(
                f"{config.title}: rl_module_spec is {spec!r}, and an RLModuleSpec with a module_class was expected"
            )
        given, arguments = spec.module_class, spec.model_config
        observation_space = spec.observation_space or observation_space
        action_space = spec.action_space or action_space
    if given is None:
        return None
    for name in ("use_lstm", "use_attention"):
        if getattr(model, name):
            raise ConfigError(
                f"{config.title}: {name}=True has no effect on a model of your own; leave it out, and let the model "
                "remember by itself (get_initial_state), or leave the model out"
            )
    looks_back = (bool(model.lstm_use_prev_action), bool(model.lstm_use_prev_reward))
    previous = PreviousStep(row_space(action_space), *looks_back) if any(looks_back) else None
    to_dict = getattr(arguments, "to_dict", None)
    return CustomModel(
        model_named(given), observation_space, action_space, observation, outputs,
        options=model.to_dict(), arguments=to_dict() if to_dict else dict(arguments or {}), seed=seed,
        previous=previous,
    )  # fmt: skip


class _Parts:
    """Makes the parts that rows are made of, in their shapes."""

    def __init__(self, flattener: Flattener) -> None:
        self._flattener = flattener

    def __call__(self, rows: Any) -> Any:
        return self._flattener.parts(rows, lambda part, shape: part.reshape(shape))


def _as_they_are(rows: Any) -> Any:
    return rows


def _require(made: Module, kind: Any) -> None:
    if not isinstance(made, kind):
        raise ConfigError(
            f"{type(made).__name__} is no {kind.__name__}, which this algorithm needs; derive it from "
            f"kernel_rllib.modules.contracts.{kind.__name__}"
        )


def _accepted(given: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a constructor names; others are found in `model_config["custom_model_config"]`."""
    asked = _asked(given)
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in asked.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in asked}


def _asked(given: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(given).parameters
    except (TypeError, ValueError):  # It is written in C, without a signature.
        return {}


def _refuse_tensorflow(given: Any) -> None:
    bases = given.__mro__ if isinstance(given, type) else type(given).__mro__
    if any(base.__name__.startswith(("TFModelV2", "RecurrentTF")) or _is_tensorflow(base) for base in bases):
        raise ConfigError(
            f"{_name(given)} is a model of TensorFlow, and those can't be learned yet; write it in torch, as a "
            "TorchModelV2 or a torch.nn.Module"
        )


def _is_tensorflow(base: type) -> bool:
    return base.__module__.split(".")[0] in ("keras", "tensorflow")


def _name(given: Any) -> str:
    return str(getattr(given, "__name__", type(given).__name__))
