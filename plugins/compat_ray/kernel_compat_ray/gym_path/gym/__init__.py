"""Environments of gymnasium with the interface of gym, for `import gym` where gym is not installed.

`reset()` returns the observation, `step()` four values, and `seed()` is a method. Spaces are gymnasium's own.
"""

import importlib
import sys

from gymnasium import error, spaces

from .core import ActionWrapper, Env, ObservationWrapper, RewardWrapper, Wrapper
from .envs.registration import make, register, registry, spec

for _name in ("error", "spaces", "utils", "logger"):
    _module = importlib.import_module(f"gymnasium.{_name}")
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module
for _name in list(sys.modules):  # For imports such as `from gym.spaces.box import Box`.
    if _name.startswith(("gymnasium.spaces.", "gymnasium.utils.")):
        sys.modules[_name.replace("gymnasium", __name__, 1)] = sys.modules[_name]

__version__ = "0.21.0"
"""The last release with this interface."""

__all__ = [
    "ActionWrapper", "Env", "ObservationWrapper", "RewardWrapper", "Wrapper", "error", "make", "register", "registry",
    "spaces", "spec",
]  # fmt: skip
