"""Lanes whose episodes never come to an end of their own: each end counts as a cut (`no_done_at_end` of 0.8.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel_rllib.envs.contract import Step, VectorEnv
from kernel_rllib.spaces.nested import Struct


class EndsAsCuts:
    """Steps other lanes, and reports as truncated what they report as terminated."""

    def __init__(self, vector: VectorEnv) -> None:
        """Step these lanes."""
        self._vector = vector

    def step(self, actions: Struct) -> Step:
        """Do one action in each lane; see `contract.VectorEnv.step`."""
        step = self._vector.step(actions)
        if not step.terminateds.any():
            return step
        return step._replace(terminateds=np.zeros_like(step.terminateds), truncateds=step.truncateds | step.terminateds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._vector, name)
