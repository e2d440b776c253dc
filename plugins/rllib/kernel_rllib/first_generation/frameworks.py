"""Libraries that programs import only where they are: `torch, nn = try_import_torch()`."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

MethodT = TypeVar("MethodT", bound=Callable[..., Any])


def try_import_torch(error: bool = False) -> tuple[Any, Any]:
    """Return torch and `torch.nn`, or None twice where torch is not installed; with `error` that is an ImportError."""
    torch = _found("torch", "RLLIB_TEST_NO_TORCH_IMPORT", error)
    return (torch, torch.nn) if torch is not None else (None, None)


def try_import_tf(error: bool = False) -> Any:
    """Return TensorFlow, or None where it is not installed; with `error` that is an ImportError."""
    return _found("tensorflow", "RLLIB_TEST_NO_TF_IMPORT", error)


def try_import_tf1_tf2(error: bool = False) -> tuple[Any, Any, int | None]:
    """Return `tf.compat.v1`, TensorFlow, and its first version number; None three times where it is not installed."""
    tf = try_import_tf(error)
    return (None, None, None) if tf is None else (tf.compat.v1, tf, int(tf.__version__.partition(".")[0]))


def try_import_tfp(error: bool = False) -> Any:
    """Return TensorFlow Probability, or None where it is not installed; with `error` that is an ImportError."""
    return _found("tensorflow_probability", "RLLIB_TEST_NO_TF_IMPORT", error)


def override(cls: type) -> Callable[[MethodT], MethodT]:
    """Mark a method as one that a base class has, too.

    Raises:
        NameError: If that class has no method of its name.
    """

    def check(method: MethodT) -> MethodT:
        if method.__name__ not in dir(cls):
            raise NameError(f"{method.__qualname__} overrides nothing: {cls.__name__} has no {method.__name__}")
        return method

    return check


def _found(name: str, never: str, error: bool) -> Any:
    if never in os.environ:
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        if error:
            raise
        return None
