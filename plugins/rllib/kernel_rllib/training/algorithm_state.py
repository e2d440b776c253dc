"""The state of an algorithm: all that training needs to go on elsewhere, and its way into checkpoints and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_rllib.checkpoints.layout import read_checkpoint, read_description, write_checkpoint
from kernel_rllib.checkpoints.settings_file import read_settings
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.runners.kept_samples import state_of_rounds
from kernel_rllib.training.honoured import PIPELINED
from kernel_rllib.training.keeping import Keeping
from kernel_rllib.training.results import EpisodeWindow
from kernel_rllib.training.several_policies import SeveralPolicies


class AlgorithmState(SeveralPolicies, Keeping):
    """Saves and restores the state of an algorithm: of its policies, of its runners, and of its progress."""

    episodes: EpisodeWindow

    def get_state(self) -> dict[str, Any]:
        """Return all that training needs to go on elsewhere, as arrays and numbers."""
        return {
            "algorithm_class": type(self),
            "config": self.config.get_state(),
            "algorithm": {
                "seed": self.seed,
                "env_steps_sampled": self.env_steps_sampled,
                "agent_steps_sampled": self.progress.agent_steps_sampled,
                "env_steps_trained": self.env_steps_trained,
                "episodes": self.episodes.state(),
                "reports": self.reports.state(),
                **self._own_states(),
            },
            "learners": self.learners.state(),
            "runners": self._runners_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `get_state` returned, with the policies that there were."""
        if "config" in state:
            self.meet_policies(AlgorithmConfig.from_state(state["config"]))
        own = state["algorithm"]
        self.seed = int(own["seed"])
        self.env_steps_sampled = int(own["env_steps_sampled"])
        self.progress.agent_steps_sampled = int(own.get("agent_steps_sampled", self.env_steps_sampled))
        self.env_steps_trained = int(own["env_steps_trained"])
        self.episodes.set_state(own["episodes"])
        if "reports" in own:
            self.reports.set_state(own["reports"])
        self._set_own_states(own)
        self.learners.set_state(state["learners"])
        if self.curriculum is not None and "tasks" in state["runners"]:  # Set before lanes begin episodes.
            self.blueprint = self.curriculum.set_state(state["runners"]["tasks"], self.runners, self.blueprint)
        self.runners.set_state(state["runners"])
        self.broadcast()

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write all that training needs to go on; see `checkpoints.layout`."""
        description = {
            "algorithm": self.config.algorithm or type(self).__name__,
            "training_iteration": self.iteration,
            "env_steps_sampled": self.env_steps_sampled,
            "policies": [*self.policies, *self.scripted],
        }
        write_checkpoint(checkpoint_dir, description, self.get_state(), self.describe)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from a checkpoint, with the policies that it has; see `checkpoints.layout`."""
        self.refuse_checkpoint_of_another(checkpoint)
        there = [*self.policies, *self.scripted]
        if {*read_description(checkpoint).get("policies", there)} != {*there}:
            self.meet_policies(read_settings(checkpoint, trust=True).config)
        self.set_state(read_checkpoint(checkpoint))
        self.checkpoint_loaded()

    def checkpoint_loaded(self) -> None:
        """Let callbacks hear that a checkpoint has been loaded."""
        self.reports.call("on_checkpoint_loaded", self)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _runners_state(self) -> dict[str, Any]:
        """Return the state of all lanes, with their tasks, and the rounds that runners were asked for ahead."""
        ahead = state_of_rounds(self.runners.gathered()) if self.acts_on >= PIPELINED else {}
        tasks = {} if self.curriculum is None else {"tasks": self.curriculum.state()}
        return {**self.runners.state(), **tasks, **({"rounds": ahead} if ahead else {})}

    def _own_states(self) -> dict[str, Any]:
        shared = self.shared_state()
        together = {"shared": shared} if shared else {}
        if not self.has_several_agents:
            return {**self.state_beside_learner(), **together}
        return {
            "module_steps": dict(self.progress.module_steps),
            "policies": {policy_id: policy.state_beside_learner() for policy_id, policy in self.policies.items()},
            **together,
        }

    def _set_own_states(self, own: Mapping[str, Any]) -> None:
        if "shared" in own:
            self.set_shared_state(own["shared"])
        if not self.has_several_agents:
            return self.set_state_beside_learner(own)
        self.progress.module_steps = {name: int(steps) for name, steps in own.get("module_steps", {}).items()}
        for policy_id, policy in self.policies.items():
            policy.set_state_beside_learner(own.get("policies", {}).get(policy_id, {}))
        return None
