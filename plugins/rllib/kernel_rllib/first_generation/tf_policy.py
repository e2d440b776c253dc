"""`build_tf_policy`, which says what to use instead."""

from __future__ import annotations

from typing import Any

from kernel_rllib.errors import RLlibError


def build_tf_policy(name: str, **functions: Any) -> Any:
    """Refuse: losses in TensorFlow are not computed yet.

    Raises:
        RLlibError: Always; it says what to use instead.
    """
    raise RLlibError(
        f"build_tf_policy(name={name!r}) can't be honoured: losses in TensorFlow are not there yet. Write the loss in "
        "torch, and give it to build_torch_policy: it gets the same four arguments"
    )
