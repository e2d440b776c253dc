"""Compute actions with a trained algorithm: for one observation, or for several in one forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.config.policy_spec import DEFAULT_POLICY_ID
from kernel_rllib.data import columns
from kernel_rllib.errors import SpaceError
from kernel_rllib.policy.scripted_inference import ScriptedInference
from kernel_rllib.training.access import PolicyAccess


class PolicyActing(PolicyAccess):
    """Acts by the policies of an algorithm, outside of its runners."""

    def compute_single_action(
        self,
        observation: Any = None,
        state: Sequence[Any] | None = None,
        *,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        input_dict: Mapping[str, Any] | None = None,
        policy_id: str = DEFAULT_POLICY_ID,
        full_fetch: bool = False,
        explore: bool | None = None,
        **further: Any,
    ) -> Any:
        """Return the action for one observation of the environment.

        Args:
            observation: The observation, as the environment returns it; a list of the last ones of the episode, the
                oldest first, where the policy acts on several.
            state: The memory of a recurrent policy; `get_policy().get_initial_state()` returns the first one.
            prev_action, prev_reward: The action and the reward of the step before, for policies that look at them; None
                where an episode begins.
            info: Accepted; no built-in model asks for it.
            input_dict: A dict in place of `observation`, `state`, `prev_action` and `prev_reward`, with these as `obs`,
                `state_in_0`..., `prev_actions` and `prev_rewards`, of one step.
            policy_id: The id of the policy that acts.
            full_fetch: True to return all that the policy gave.
            explore: True to draw the action, as while training; False for the best known one; None for what the config
                says.
            further: Accepted, as older programs pass more.

        Returns:
            The action; with `full_fetch`, or where a state is given, the action, the state after it, and a dict of
            what else the policy gave.

        Raises:
            SpaceError: If the observation is not of its space, or is given twice.
        """
        if input_dict is not None:
            if observation is not None:
                raise SpaceError("both observation and input_dict are given: the observation is obs of input_dict")
            observation, state, prev_action, prev_reward = of_one_step(input_dict)
        policy_id = self._known_policy(policy_id)
        explore = bool(self.config.explore) if explore is None else explore
        names = self._state_names(policy_id, state)
        given = {name: np.asarray(value)[None] for name, value in zip(names, state or [], strict=False)}
        previous = None if prev_action is None else ([prev_action], [prev_reward or 0.0])
        actions, outputs = self.inference_of(policy_id).actions(
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
            observations: The observations, by any keys, or a sequence of them. Where there are several policies, by
                agent: each policy acts for its agents.
            state: The memories of a recurrent policy, by the same keys.
            policy_id: The id of the policy that acts.
            full_fetch: True to return all that the policy gave.
            explore: True to draw actions, as while training; False for the best known ones; None for what the config
                says.
            further: Accepted, as older programs pass more.

        Returns:
            Actions by the same keys, or a list; with `full_fetch`, or where a state is given, these, the states after
            them by the same keys, and a dict of arrays [N, ...] of what else the policy gave.
        """
        keyed = observations if isinstance(observations, Mapping) else dict(enumerate(observations))
        several = len(self.policies) + len(self.scripted) > 1
        if policy_id == DEFAULT_POLICY_ID and several and isinstance(observations, Mapping):
            return self._by_policies(keyed, state, full_fetch=full_fetch, explore=explore)
        policy_id = self._known_policy(policy_id)
        explore = bool(self.config.explore) if explore is None else explore
        actions, outputs = self.inference_of(policy_id).actions(
            list(keyed.values()),
            explore=explore,
            timestep=self.env_steps_sampled,
            state=self._stacked(policy_id, keyed, state),
        )
        chosen = dict(zip(keyed, actions, strict=True)) if keyed is observations else actions
        if not full_fetch and not state:
            return chosen
        after = list(outputs.get(columns.STATE_OUT, {}).values())
        states = {key: [value[row] for value in after] for row, key in enumerate(keyed)}
        return chosen, states, {name: value for name, value in outputs.items() if name != columns.STATE_OUT}

    # -- inside -------------------------------------------------------------------------------------------------------

    def _by_policies(
        self,
        observations: Mapping[Any, Any],
        state: Mapping[Any, Sequence[Any]] | None,
        *,
        full_fetch: bool,
        explore: bool | None,
    ) -> Any:
        """Return what `compute_actions` does, each agent's by the policy that it has."""
        groups: dict[str, dict[Any, Any]] = {}
        for agent, observation in observations.items():
            groups.setdefault(self._known_policy(self.config.policy_of(agent)), {})[agent] = observation
        found = [
            self.compute_actions(
                group,
                None if state is None else {agent: state[agent] for agent in group if agent in state},
                policy_id=policy_id,
                full_fetch=full_fetch,
                explore=explore,
            )
            for policy_id, group in groups.items()
        ]
        if not full_fetch and not state:
            return {agent: action for chosen in found for agent, action in chosen.items()}
        parts = [part if isinstance(part, tuple) else (part, {}, {}) for part in found]
        actions = {agent: action for chosen, _, _ in parts for agent, action in chosen.items()}
        states = {agent: kept for _, after, _ in parts for agent, kept in after.items()}
        return actions, states, dict(zip(groups, (rest for *_, rest in parts), strict=True))

    def _stacked(
        self, policy_id: str, keyed: Mapping[Any, Any], state: Mapping[Any, Sequence[Any]] | None
    ) -> dict[str, Array] | None:
        if not state:
            return None
        given = [state[key] for key in keyed]
        for each in given:
            names = self._state_names(policy_id, each)
        return {name: np.stack([each[place] for each in given]) for place, name in enumerate(names)}

    def _state_names(self, policy_id: str, state: Sequence[Any] | None) -> list[str]:
        """Return the names of what a policy remembers. Raises SpaceError where a state has not as many parts."""
        acting = self.inference_of(policy_id)
        if isinstance(acting, ScriptedInference):
            names = [str(at) for at in range(len(acting.initial_state()))]
        else:
            names = list(self.policies[policy_id].learner.module.state())
        if state and len(state) != len(names):
            raise SpaceError(
                f"state has {len(state)} arrays, but the policy remembers {len(names)}: give what "
                "get_policy().get_initial_state() returns at first, and what came with the last action later"
            )
        return names


def of_one_step(given: Mapping[str, Any]) -> tuple[Any, list[Any] | None, Any, Any]:
    """Return observation, state, action before and reward before of a dict of columns of one step."""
    if columns.OBS not in given:
        raise SpaceError(f"input_dict has {', '.join(map(repr, given))} and no 'obs': give the observation as that")
    states = sorted((name for name in given if name.startswith("state_in_")), key=lambda name: int(name[9:]))
    state = [given[name] for name in states] or None
    return given[columns.OBS], state, given.get("prev_actions"), given.get("prev_rewards")
