"""Users' policies: load them by function or import path, call them, and check their answers."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from typing import Any

from kernel_serve.autoscaling.policy import AutoscalingContext, default_policy
from kernel_serve.autoscaling.policy_wrappers import Policy, wrapped
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AutoscalingConfig


def load_policy(settings: AutoscalingConfig) -> Policy:
    """Return the policy as a function of the context, with the policy's arguments bound.

    A class is constructed with the arguments, a function gets them with each call. A user's policy is put
    into the wrappers of the installed distributions. Raises DeploymentError if the policy can't be imported or is not
    callable.
    """
    policy, arguments = settings.policy, dict(settings.policy_arguments)
    if policy is None:
        return default_policy
    if isinstance(policy, str):
        policy = _imported(policy)
    if not callable(policy):
        raise DeploymentError(
            f'the autoscaling policy is a function, or its import path as "module:function", not {policy!r}'
        )
    if isinstance(policy, type):
        return wrapped(policy(**arguments))
    return wrapped((lambda context: policy(context, **arguments)) if arguments else policy)


def ask(policy: Policy, context: AutoscalingContext) -> tuple[int, Mapping[str, Any]]:
    """Return the number of replicas that a policy wants, and its state.

    A policy returns a number from 0 on, which is rounded up, or such a number and a mapping. Raises what the policy
    raises, and DeploymentError for another answer.
    """
    answer = policy(context)
    number, state = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, {})
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not math.isfinite(number) or number < 0 or not isinstance(state, Mapping):
        raise DeploymentError(
            f"the policy returned {answer!r}; expected a number of replicas from 0 on, or such a number and a "
            "mapping that is its state"
        )
    return math.ceil(number), state


def _imported(path: str) -> Any:
    module_name, colon, name = path.partition(":")
    if not colon:
        module_name, _, name = path.rpartition(".")
    if not module_name or not name:
        raise DeploymentError(f'the autoscaling policy {path!r} is no import path; write it as "module:function"')
    try:
        return getattr(importlib.import_module(module_name), name)
    except Exception as error:
        raise DeploymentError(
            f"the autoscaling policy {path!r} can't be imported where the controller runs: "
            f"{type(error).__name__}: {error}"
        ) from error
