"""Wrappers that other distributions put around users' policies.

A distribution offers one by an entry point in the group `kernel_serve.policy_wrappers`: a function that takes a policy
and returns one. With `kernel-compat-ray`, for example, policies get a context that has Ray Serve's names, too. Entry
points are asked for in the process that loads the policy, so the wrappers are there in the controller as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kernel_serve.autoscaling.policy import AutoscalingContext
from kernel_serve.installed import load_installed

GROUP = "kernel_serve.policy_wrappers"

Policy = Callable[[AutoscalingContext], Any]
PolicyWrapper = Callable[[Policy], Policy]


def wrapped(policy: Policy) -> Policy:
    """Return the policy in the wrappers of all installed distributions. The first one by name is the innermost."""
    for wrapper in _installed():
        policy = wrapper(policy)
    return policy


@functools.cache
def _installed() -> tuple[PolicyWrapper, ...]:
    return tuple(load_installed(GROUP, "wrappers of autoscaling policies are left out"))
