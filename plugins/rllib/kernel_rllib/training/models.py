"""Check models for algorithms: whether they fit the observations, and which backend they need."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_rllib.config.warnings_to_users import warn
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError, MissingDependencyError
from kernel_rllib.modules.module import Module
from kernel_rllib.training.honoured import IMAGES


def framework_of(config: Any, module: Module, distribution: Distribution) -> str:
    """Return the name of the backend that learns: as settings say, or the one that a module or distribution needs.

    Warns that TensorFlow, where that is asked for, is not here yet.

    Raises:
        ConfigError: If these are two.
        MissingDependencyError: If it is torch by need, and that can't be imported.
    """
    asked = config.framework_str
    for what, needed in (("model", module.learns_in), ("distribution of actions", distribution.learns_in)):
        if asked != "torch" and asked != "numpy" and needed == "torch":
            _require_torch(f"{config.title}: this {what} learns in torch")
        if asked == "numpy" and needed == "torch":
            raise ConfigError(
                f"{config.title}: framework is 'numpy', but this {what} learns in torch only; set it to 'torch' or "
                "'auto', which needs: pip install 'kernel-rllib[torch]'"
            )
    if asked in ("tf", "tf2"):
        warn(
            f"{config.title}: framework is {asked!r}, but TensorFlow comes in a later release; numpy learns instead, "
            "or torch where the model needs it. Leave framework out, or set it to 'torch'",
            UserWarning,
        )
    if module.learns_in == "numpy":
        return "numpy"
    return "torch" if "torch" in (asked, module.learns_in, distribution.learns_in) else "numpy"


def _require_torch(what: str) -> None:
    """Raise MissingDependencyError, which says what needs torch, where that can't be imported."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            f"{what}, which can't be imported ({error}). Run: pip install 'kernel-rllib[torch]'. Images are "
            "learned by it, and models of its own; rows of numbers by numpy alone"
        ) from error


def refuse_images(config: Any, acts_on: frozenset[str], observation: tuple[int, ...]) -> None:
    """Raise ConfigError where observations are images, and an algorithm has no convolutions.

    Args:
        config: The settings.
        acts_on: The settings that the algorithm acts on.
        observation: The shape of one row of observations.
    """
    if len(observation) != 1 and not acts_on >= IMAGES:
        raise ConfigError(
            f"{config.title} has dense networks only, but observations are images {list(observation)}; wrap the "
            "environment so that they are flat, or take PPO, DQN or SAC"
        )


def refuse_dense_layers_for_images(config: Any, observation: tuple[int, ...]) -> None:
    """Raise ConfigError where options were given that have no effect on images, or on observations that are none.

    Args:
        config: The settings.
        observation: The shape of one row of observations: of three axes for an image.
    """
    model = config.model
    given = [name for name in _OF_THE_OTHERS[len(observation) == 3] if not model.is_default(name)]
    if not given:
        return
    if len(observation) == 3:
        raise ConfigError(
            f"{config.title}: observations are images {list(observation)}, which pass convolutions, and model "
            f"{', '.join(given)} has no effect on them; set conv_filters, and head_fcnet_hiddens for what follows them"
        )
    raise ConfigError(
        f"{config.title}: model {', '.join(given)} has no effect, as observations are rows of {observation[0]} numbers "
        "and no images; images are a Box of shape [height, width, channels]"
    )


_OF_THE_OTHERS = {True: ("fcnet_hiddens", "fcnet_activation"), False: ("conv_filters", "conv_activation")}
"""Options of the model that have no effect: where observations are images, and where they are not."""
