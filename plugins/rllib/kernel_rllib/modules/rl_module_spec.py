"""The specification of a user's own module, as today's API has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class RLModuleSpec:
    """A module of one's own: `config.rl_module(rl_module_spec=RLModuleSpec(module_class=MyModule))`.

    Attributes:
        module_class: A `TorchRLModule`, a `torch.nn.Module`, or a `kernel_rllib.Module`.
        model_config: The options that it reads as `self.model_config`, or takes as keyword arguments.
        observation_space: The space of observations; None for the environment's.
        action_space: The space of actions; None for the environment's.
    """

    module_class: Any = None
    model_config: Any = field(default_factory=dict)
    observation_space: Any = None
    action_space: Any = None
