"""Arguments of commands: JSON that says where it is wrong, and names that shells complete."""

from __future__ import annotations

import json
from typing import Any

import click

from kernel_rllib.envs import gymnasium_names
from kernel_rllib.envs.registry import registered_names
from kernel_rllib.experiments.tuned import tuned_names
from kernel_rllib.training.registry import ALGORITHMS


class JsonObject(click.ParamType):  # type: ignore[type-arg]
    """A JSON object, such as `{"lr": 0.001}`."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        """Return the dict; refuse what is none, with the place where it is wrong."""
        if isinstance(value, dict):
            return value
        try:
            found = json.loads(value)
        except json.JSONDecodeError as error:
            before = value[max(error.pos - 16, 0) : error.pos]
            self.fail(f"this is not JSON: {error.msg} at character {error.pos + 1}, after {before!r}", param, ctx)
        if not isinstance(found, dict):
            self.fail(f"this is {value}, but must be a JSON object such as '{{\"lr\": 0.001}}'", param, ctx)
        return found


def complete_algorithm(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the name of an algorithm."""
    return [name for name in sorted(ALGORITHMS) if name.lower().startswith(begun.lower())]


def complete_env(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the name of an environment."""
    return [name for name in [*registered_names(), *gymnasium_names.names()] if name.startswith(begun)]


def complete_example(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the name of a tuned experiment."""
    return [name for name in tuned_names() if name.startswith(begun)]
