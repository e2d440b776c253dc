"""Gymnasium's pendulum with a mass that is not seen: the mass is the task."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.classic_control.pendulum import PendulumEnv

from kernel_rllib.envs.task import TaskSettableEnv


class PendulumMassEnv(PendulumEnv, TaskSettableEnv):
    """The pendulum, with masses from 0.5 to 2 as tasks. It has no time limit of its own: `horizon` sets one."""

    def __init__(self, settings: Any = None) -> None:
        """Begin with the mass 1. `settings` may have `g`, gravity (10)."""
        super().__init__(g=float((settings or {}).get("g", 10.0)))

    def sample_tasks(self, n_tasks: int) -> list[float]:
        """Return masses."""
        return [float(mass) for mass in self.np_random.uniform(0.5, 2.0, n_tasks)]

    def get_task(self) -> float:
        """Return the mass."""
        return float(self.m)

    def set_task(self, task: Any) -> None:
        """Set the mass."""
        self.m = float(task)
