"""`Exploration`: what explorations of older programs derive from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.errors import RLlibError


class Exploration:
    """Chooses actions for what a model puts out. Define `get_exploration_action`.

    Attributes:
        action_space: The action space.
        framework: `"torch"` where it is given tensors, otherwise `"numpy"`.
        policy_config: The settings of the policy, as a dict.
        model: None: it is given what the model puts out.
        num_workers: The number of runners elsewhere.
        worker_index: The number of this one: 0 beside the learner, from 1 elsewhere.
    """

    def __init__(
        self,
        action_space: Any = None,
        *,
        framework: str = "numpy",
        policy_config: Mapping[str, Any] | None = None,
        model: Any = None,
        num_workers: int = 0,
        worker_index: int = 0,
    ) -> None:
        """Take what is known of the policy and of the runner."""
        self.action_space, self.framework, self.model = action_space, framework, model
        self.policy_config = dict(policy_config or {})
        self.num_workers, self.worker_index = num_workers, worker_index

    def before_compute_actions(self, *, timestep: int | None = None, explore: bool | None = None, **_: Any) -> None:
        """Be told that actions are asked for."""

    def get_exploration_action(self, **_: Any) -> tuple[Any, Any]:
        """Return actions [N, ...] and their log-likelihoods [N].

        It is given `distribution_inputs`, `action_dist_class`, `model`, `explore` and `timestep`; or, where it has an
        argument of this name, an `action_distribution`, `explore` and `timestep`.
        """
        raise RLlibError(f"{type(self).__name__} has no get_exploration_action(): an exploration has to define it")

    def get_state(self) -> dict[str, Any]:
        """Return what is said of it by `policy.get_exploration_info()`; by default nothing."""
        return {}

    def get_info(self) -> dict[str, Any]:
        """Return the same."""
        return self.get_state()
