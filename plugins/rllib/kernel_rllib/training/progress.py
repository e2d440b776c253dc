"""Count the steps of a run, and time the phases of its iterations."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kernel_rllib.training.results import ResultTree


@dataclass
class Progress:
    """Holds the counts of steps of a run. The policies of an algorithm share it.

    Attributes:
        env_steps_sampled: The number of steps of the environments.
        agent_steps_sampled: The number of steps of agents. With one agent in each environment it is the same.
        env_steps_trained: The number of rows that the learners were given.
        module_steps: The number of steps of agents, by the policy that acted.
        env_steps_new: The number of steps of the environments for the current training step.
        policy_lags: The number of updates by which each fragment's policy was behind the learner's.
        seconds: The duration of each phase of the iteration.
    """

    env_steps_sampled: int = 0
    agent_steps_sampled: int = 0
    env_steps_trained: int = 0
    env_steps_new: int = 0
    module_steps: dict[str, int] = field(default_factory=dict)
    policy_lags: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def results(self, sampled: int, seconds: float) -> ResultTree:
        """Return what is reported of it, under the names of all generations.

        Args:
            sampled: The number of steps that the environments made in this iteration.
            seconds: The duration of the iteration, in seconds.
        """
        by_module = {"num_module_steps_sampled_lifetime": dict(self.module_steps)} if self.module_steps else {}
        return {
            "env_runners": {
                "num_env_steps_sampled": sampled,
                "num_env_steps_sampled_lifetime": self.env_steps_sampled,
                **by_module,
            },
            "num_agent_steps_sampled": self.agent_steps_sampled,
            "num_agent_steps_sampled_lifetime": self.agent_steps_sampled,
            "num_env_steps_sampled_lifetime": self.env_steps_sampled,
            "num_env_steps_sampled": self.env_steps_sampled,
            "num_env_steps_trained": self.env_steps_trained,
            "timesteps_total": self.env_steps_sampled,
            "num_env_steps_sampled_throughput_per_sec": sampled / seconds,
            "timers": {f"{phase}_time_ms": spent * 1000 for phase, spent in self.seconds.items()},
            "info": {
                "num_env_steps_sampled": self.env_steps_sampled,
                "num_agent_steps_sampled": self.agent_steps_sampled,
                "num_env_steps_trained": self.env_steps_trained,
            },
        }


class Timed:
    """Adds the seconds that a `with` block takes to those of its phase."""

    def __init__(self, seconds: dict[str, float], phase: str) -> None:
        """Count in `seconds`, under the name of the phase."""
        self._seconds, self._phase = seconds, phase

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._phase] = self._seconds.get(self._phase, 0.0) + time.perf_counter() - self._began
