"""How users reach what an algorithm has learned: actions, policies, weights and workers, under all names they had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernel_rllib.algorithms.spaces import Spaces
from kernel_rllib.arrays import Array
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Learner, Metrics
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.policy.workers import WorkerSet, WorkerSettings, WorkerView
from kernel_rllib.runners.blueprint import Blueprint
from kernel_rllib.runners.group import RunnerGroup

if TYPE_CHECKING:
    from kernel_rllib.modules.module import Module


class PolicyAccess:
    """What an algorithm is asked between iterations, and after them."""

    config: AlgorithmConfig
    spaces: Spaces
    distribution: Distribution
    learner: Learner
    runners: RunnerGroup
    inference: Inference
    blueprint: Blueprint
    env_steps_sampled: int

    # -- acting -------------------------------------------------------------------------------------------------------

    def compute_single_action(
        self,
        observation: Any,
        state: Sequence[Any] | None = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **further: Any,
    ) -> Any:
        """Return the action for one observation of the environment.

        Args:
            observation: As the environment returns it; a list of the last ones of the episode, the oldest first, where
                the policy acts on several.
            state: What a recurrent policy remembers, as `get_policy().get_initial_state()` returns it at first.
            prev_action, prev_reward: The step before, for policies that look at it; None where an episode begins.
            info: Accepted; no built-in model asks for it.
            policy_id: Which policy acts.
            full_fetch: Whether to return all that the policy gave.
            explore: Whether it is drawn, as while training; None for what the config says.
            further: Accepted, as older programs pass more.

        Returns:
            The action; with `full_fetch`, or where a state is given, the action, the state after it, and a dict of
            what else the policy gave.
        """
        self.get_policy(policy_id)  # raises if there is none
        explore = bool(self.config.explore) if explore is None else explore
        names = self.learner.module.state()
        given = {name: np.asarray(value)[None] for name, value in zip(names, state or [], strict=False)}
        previous = None if prev_action is None else ([prev_action], [prev_reward or 0.0])
        actions, outputs = self.inference.actions(
            [observation], explore=explore, timestep=self.env_steps_sampled, state=given or None, previous=previous
        )
        if not full_fetch and not state:
            return actions[0]
        remembered = [value[0] for value in outputs.get(columns.STATE_OUT, {}).values()]
        rest = {name: value[0] for name, value in outputs.items() if name != columns.STATE_OUT}
        return actions[0], remembered, rest

    def compute_action(
        self,
        observation: Any,
        state: Sequence[Any] | None = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
    ) -> Any:
        """Return the action for one observation: what `compute_single_action` returns."""
        return self.compute_single_action(
            observation,
            state,
            prev_action=prev_action,
            prev_reward=prev_reward,
            policy_id=policy_id,
            full_fetch=full_fetch,
            explore=explore,
        )

    def compute_actions(
        self,
        observations: Mapping[Any, Any] | Sequence[Any],
        state: Mapping[Any, Sequence[Any]] | None = None,
        *,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **further: Any,
    ) -> Any:
        """Return an action for each of several observations, in one forward pass.

        Args:
            observations: By any keys, or a sequence.
            state: What a recurrent policy remembers, by the same keys.
            policy_id: Which policy acts.
            full_fetch: Whether to return all that the policy gave.
            explore: Whether actions are drawn, as while training; None for what the config says.
            further: Accepted, as older programs pass more.

        Returns:
            Actions by the same keys, or a list; with `full_fetch`, or where a state is given, these, the states after
            them by the same keys, and a dict of arrays [N, ...] of what else the policy gave.
        """
        keyed = observations if isinstance(observations, Mapping) else dict(enumerate(observations))
        self.get_policy(policy_id)
        explore = bool(self.config.explore) if explore is None else explore
        actions, outputs = self.inference.actions(
            list(keyed.values()), explore=explore, timestep=self.env_steps_sampled, state=self._stacked(keyed, state)
        )
        chosen = dict(zip(keyed, actions, strict=True)) if keyed is observations else actions
        if not full_fetch and not state:
            return chosen
        after = list(outputs.get(columns.STATE_OUT, {}).values())
        states = {key: [value[row] for value in after] for row, key in enumerate(keyed)}
        return chosen, states, {name: value for name, value in outputs.items() if name != columns.STATE_OUT}

    # -- policies and weights -----------------------------------------------------------------------------------------

    def get_policy(self, policy_id: str = DEFAULT_POLICY_ID) -> Any:
        """Return a policy. Raises UnknownPolicyError, a KeyError, if there is none of that id."""
        return self.workers.local_worker().get_policy(policy_id)

    def get_module(self, module_id: str = DEFAULT_POLICY_ID) -> Module:
        """Return the module of a policy."""
        module: Module = self.get_policy(module_id).model.module
        return module

    @property
    def workers(self) -> WorkerSet:
        """The workers: runners with their policies."""
        if not hasattr(self, "_workers"):
            self._workers = WorkerSet(self._worker_settings(), self.runners, self._policies)
        return self._workers

    @property
    def env_runner_group(self) -> WorkerSet:
        """The workers, by today's name."""
        return self.workers

    @property
    def env_runner(self) -> WorkerView:
        """The worker beside the learner."""
        return self.workers.local_worker()

    def _worker_settings(self) -> WorkerSettings:
        indices = [0, *(index for index, _ in self.runners.actors())]
        steps = {index: self.config.get_rollout_fragment_length(index) for index in indices}
        return WorkerSettings(self.blueprint, self.distribution, self.config.to_dict(), steps)

    def _policies(self) -> Mapping[str, Any]:
        if not hasattr(self, "_policy"):
            self._policy = PolicyView(
                LearnerParameters(self.learner, self.broadcast),
                self.inference,
                observation_space=self.spaces.observation,
                action_space=self.spaces.action,
                distribution=self.distribution,
                stream=self.stream("policy"),
                config=self.config.to_dict(),
                learn=self._learn,
                timestep=lambda: self.env_steps_sampled,
            )
        return {DEFAULT_POLICY_ID: self._policy}

    def _learn(self, batch: Batch) -> Metrics:
        metrics = self.update(batch)
        self.broadcast()
        return metrics

    def _stacked(self, keyed: Mapping[Any, Any], state: Mapping[Any, Sequence[Any]] | None) -> dict[str, Array] | None:
        if not state:
            return None
        names = list(self.learner.module.state())
        return {name: np.stack([state[key][place] for key in keyed]) for place, name in enumerate(names)}

    # -- what the algorithm has beside ---------------------------------------------------------------------------------

    def broadcast(self) -> None:
        """Let all runners act with the learner's parameters of now."""
        raise NotImplementedError

    def stream(self, *purpose: int | str) -> np.random.Generator:
        """Return a generator of random numbers for a purpose."""
        raise NotImplementedError

    def update(self, batch: Batch, only: Sequence[str] | None = None) -> Metrics:
        """Let the learner make one step."""
        raise NotImplementedError
