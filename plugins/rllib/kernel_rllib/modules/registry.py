"""Names that users gave to models of their own."""

from __future__ import annotations

import importlib
from typing import Any

from kernel_rllib.errors import ConfigError
from kernel_rllib.nearest import did_you_mean

_MODELS: dict[str, Any] = {}


def register_model(name: str, model: Any) -> None:
    """Give a model a name, which `model={"custom_model": name}` takes. A name that is given again means the new one.

    Args:
        name: The name.
        model: A class, or a function that makes a model.

    Raises:
        ConfigError: If the name is no text, or the model can't be called.
    """
    if not isinstance(name, str) or not callable(model):
        raise ConfigError(
            f"a model was registered as {name!r}: {model!r}; give a name, and a class or a function that makes a model"
        )
    _MODELS[name] = model


def model_named(given: Any) -> Any:
    """Return the model that a user names: by a registered name, by a dotted path, or as it is.

    Raises:
        ConfigError: If there is none of that name; the message has the nearest one.
    """
    if not isinstance(given, str):
        return given
    if given in _MODELS:
        return _MODELS[given]
    module, _, attribute = given.rpartition(".")
    try:
        if module:
            return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        pass
    known = f"there are {', '.join(map(repr, _MODELS))}" if _MODELS else "there are none"
    raise ConfigError(
        f"custom_model is {given!r}, and no model was registered by that name{did_you_mean(given, _MODELS)} ({known}); "
        "register it by ModelCatalog.register_custom_model(name, class), or give the class or its dotted path"
    )
