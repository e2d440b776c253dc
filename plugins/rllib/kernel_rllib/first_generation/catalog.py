"""The catalog of the first generation: names for classes of one's own; models, distributions and preprocessors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space

from kernel_rllib.distributions.of_users import distribution_of, register_distribution
from kernel_rllib.errors import ConfigError
from kernel_rllib.modules.custom import CustomModel
from kernel_rllib.modules.registry import model_named, register_model
from kernel_rllib.policy.action_distribution import distribution_class
from kernel_rllib.spaces.preprocessors import Preprocessor, preprocessor_for, register_preprocessor


class ModelCatalog:
    """Registers models of the user's own, and makes models and preprocessors for spaces."""

    @staticmethod
    def register_custom_model(model_name: str, model_class: Any) -> None:
        """Give a model a name, which `model={"custom_model": name}` takes. Raises ConfigError if it can't be one."""
        register_model(model_name, model_class)

    @staticmethod
    def register_custom_preprocessor(preprocessor_name: str, preprocessor_class: Any) -> None:
        """Give a preprocessor a name, which `model={"custom_preprocessor": name}` takes.

        Args:
            preprocessor_name: The name.
            preprocessor_class: A class derived from `Preprocessor`.

        Raises:
            ConfigError: If it can't be one.
        """
        register_preprocessor(preprocessor_name, preprocessor_class)

    @staticmethod
    def register_custom_action_dist(action_dist_name: str, action_dist_class: Any) -> None:
        """Give a distribution a name, which `model={"custom_action_dist": name}` takes. Raises ConfigError otherwise.

        Args:
            action_dist_name: The name.
            action_dist_class: A class derived from `TorchDistributionWrapper` or from `Distribution`.
        """
        register_distribution(action_dist_name, action_dist_class)

    @staticmethod
    def get_action_dist(
        action_space: Space[Any],
        config: Mapping[str, Any] | None = None,
        dist_type: Any = None,
        framework: str = "torch",
        **kwargs: Any,
    ) -> tuple[Any, int]:
        """Return the class of distributions of an action space, and how many inputs a row of it needs.

        The class is called with (inputs, model); inputs are tensors or plain arrays.

        Args:
            action_space: The space of actions.
            config: The options `model` of a config; `custom_action_dist` names a distribution of one's own.
            dist_type: A class, or the name of one, that is taken in its place.
            framework: Accepted: it follows from the inputs.
            kwargs: None are taken.

        Raises:
            ConfigError: If no distribution has the name that is given, or there are further arguments.
            SpaceError: If there is none for the space.
        """
        if kwargs:
            raise ConfigError(
                f"get_action_dist takes no {', '.join(kwargs)}: give a class that knows them as dist_type"
            )
        options = {**(config or {}), **({} if dist_type is None else {"custom_action_dist": dist_type})}
        distribution = distribution_of(action_space, options)
        return distribution_class(distribution, np.random.default_rng()), distribution.parameter_size

    @staticmethod
    def get_model(*_: Any, **__: Any) -> Any:
        """Refuse: models of graphs of TensorFlow are not here.

        Raises:
            ConfigError: Always; it says what to use instead.
        """
        raise ConfigError(
            "ModelCatalog.get_model() can't be done: it made graphs of TensorFlow. Use "
            "ModelCatalog.get_model_v2(obs_space, action_space, num_outputs, options), which makes modules of torch"
        )

    @staticmethod
    def get_model_v2(
        obs_space: Space[Any],
        action_space: Space[Any],
        num_outputs: int,
        model_config: Mapping[str, Any],
        framework: str = "torch",
        name: str = "default_model",
        default_model: Any = None,
        **model_kwargs: Any,
    ) -> Any:
        """Return a model of the first generation: the one that `custom_model` names, or dense layers.

        Args:
            obs_space: The space of observations.
            action_space: The space of actions.
            num_outputs: The number of outputs of the model for each row.
            model_config: The options `model` of a config.
            framework: Of models that are made here there is torch alone.
            name: The name of the model.
            default_model: The class of the model where no `custom_model` is named; None for dense layers.
            model_kwargs: Further arguments of the model.

        Raises:
            ConfigError: If no model has the name that is given, or it is one of TensorFlow.
            MissingDependencyError: If torch is not installed.
        """
        given = model_config.get("custom_model") or default_model
        if given is None:
            from kernel_rllib.modules.model_v2 import FullyConnectedNetwork

            given = FullyConnectedNetwork
        arguments = {**model_config.get("custom_model_config", {}), **model_kwargs}
        shape = tuple(obs_space.shape or ())
        custom = CustomModel(
            model_named(given), obs_space, action_space, shape, num_outputs, options=model_config, arguments=arguments
        )
        return custom.made(name)

    @staticmethod
    def get_preprocessor_for_space(
        observation_space: Space[Any], options: Mapping[str, Any] | None = None
    ) -> Preprocessor:
        """Return the preprocessor of observations of a space: `custom_preprocessor` of the options, or the usual one.

        Raises:
            ConfigError: If the one that options name is none.
            SpaceError: If there is none for the space.
        """
        return preprocessor_for(observation_space, options)

    @staticmethod
    def get_preprocessor(env: Any, options: Mapping[str, Any] | None = None) -> Preprocessor:
        """Return the preprocessor of what an environment observes; see `get_preprocessor_for_space`."""
        return ModelCatalog.get_preprocessor_for_space(env.observation_space, options)
