"""Advantages and targets of values, for algorithms that learn from what they have just sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Learner
from kernel_rllib.modules.actor_critic import ActorCritic
from kernel_rllib.modules.module import Parameters
from kernel_rllib.nn.ops import Ops
from kernel_rllib.returns.gae import gae
from kernel_rllib.returns.returns_to_go import returns_to_go
from kernel_rllib.returns.vtrace import vtrace


class Evaluates(Protocol):
    """Computes with a module and its parameters, as a learner does."""

    @property
    def module(self) -> Any:
        """The module."""
        ...

    def evaluate(self, function: Callable[[Ops, Parameters], Any]) -> Any:
        """Return `function(nn, parameters)`."""
        ...


ROWS = 8
"""Rows of observations are filled up to a multiple of this many: see `nn.products`."""


def values_of(learner: Evaluates, obs: Array) -> Array:
    """Return the values [N] of observations [N, ...] by the learner's parameters of now, without memory."""
    count = len(obs)
    missing = -count % ROWS
    if missing:
        obs = np.concatenate([obs, np.zeros((missing, *obs.shape[1:]), obs.dtype)])
    return _values(learner, {columns.OBS: obs})[:count]


def fragment_values(learner: Evaluates, fragment: Fragment) -> tuple[Array, Array]:
    """Return the values of what was observed before and after each step of a fragment [T, L].

    After the end of an episode, the value is that of its final observation. A module that remembers goes through the
    fragment as the runner did: it begins with what was remembered then, and forgets where episodes begin.
    """
    steps, lanes = fragment.shape
    obs = fragment.columns[columns.OBS]
    if not learner.module.state():
        values = values_of(learner, obs.reshape(steps * lanes, *obs.shape[2:])).reshape(steps, lanes)
        return values, fragment.next_values(values, lambda rows: values_of(learner, rows))
    first = {name: state[0] for name, state in fragment.state_in.items()}
    resets = fragment.columns[columns.RESETS]
    values = _values(learner, {columns.OBS: obs, columns.STATE_IN: first, columns.RESETS: resets})
    values = values.reshape(steps, lanes)
    return values, fragment.next_values(values, lambda rows: _values_beyond(learner, fragment, rows))


def estimate_advantages(
    learner: Evaluates,
    fragment: Fragment,
    *,
    gamma: float,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
) -> None:
    """Add the columns `advantages` and `value_targets` to a fragment, and `vf_preds` where values are used.

    With values, `intrinsic_advantages` are added to the advantages, where a fragment has them.

    Args:
        learner: The learner whose value function gives the estimates.
        fragment: The steps [T, L] that were sampled with the learner's parameters.
        gamma: The discount of a reward that comes one step later, from 0 to 1.
        lambda_: The decay of the estimates, from 0 to 1: at 0 values take over after one step, at 1 rewards count to
            the end.
        use_gae: True for generalised advantage estimates. False for returns to go, which the value of the last
            observation completes, less the value of the first.
        use_critic: True if there is a value function. Without one, advantages are returns to go, and what is beyond a
            fragment or a time limit counts nothing.
    """
    found = fragment.columns
    ends = (found[columns.TERMINATEDS], found[columns.TRUNCATEDS])
    if not use_critic:
        returns = returns_to_go(found[columns.REWARDS], *ends, gamma=gamma, valid=fragment.valid)
        found |= {columns.ADVANTAGES: returns, columns.VALUE_TARGETS: np.zeros_like(returns)}
        return
    values, next_values = fragment_values(learner, fragment)
    if use_gae:
        advantages, targets = gae(
            found[columns.REWARDS], values, next_values, *ends, gamma=gamma, lambda_=lambda_, valid=fragment.valid
        )
    else:
        rewards, valid = found[columns.REWARDS], fragment.valid
        targets = returns_to_go(rewards, *ends, gamma=gamma, next_values=next_values, valid=valid)
        advantages = targets - values
    if columns.INTRINSIC_ADVANTAGES in found:
        advantages = advantages + found[columns.INTRINSIC_ADVANTAGES]
    found |= {columns.VF_PREDS: values, columns.ADVANTAGES: advantages, columns.VALUE_TARGETS: targets}


def estimate_by_v_trace(
    learner: Learner,
    fragment: Fragment,
    distribution: Distribution,
    *,
    gamma: float,
    lambda_: float = 1.0,
    rho_bar: float = 1.0,
    policy_rho_bar: float = 1.0,
) -> None:
    """Add the columns `advantages` and `value_targets` to a fragment that older parameters sampled, and `vf_preds`.

    Its `action_logp` and `action_dist_inputs` become those of the learner's policy: what is learned from then is how
    the policy differs from the one of now, as V-trace has accounted for how that differs from the one that acted.

    Args:
        learner: The learner whose policy and value function are used.
        fragment: The sampled steps [T, L], with the `action_logp` of that time.
        distribution: The distribution of the policy's actions.
        gamma: The discount of a reward that comes one step later, from 0 to 1.
        lambda_: The decay of the estimates, from 0 to 1: at 0 values take over after one step, at 1 rewards count to
            the end.
        rho_bar: The largest importance ratio in values; see `returns.vtrace`.
        policy_rho_bar: The largest importance ratio in advantages.
    """
    found = fragment.columns
    inputs, log_probs = policy_of(learner, fragment, distribution)
    values, next_values = fragment_values(learner, fragment)
    targets, advantages = vtrace(
        log_probs - found[columns.ACTION_LOGP],
        found[columns.REWARDS],
        values,
        next_values,
        found[columns.TERMINATEDS],
        found[columns.TRUNCATEDS],
        gamma=gamma,
        lambda_=lambda_,
        rho_bar=rho_bar,
        policy_rho_bar=policy_rho_bar,
        valid=fragment.valid,
    )
    found |= {columns.VF_PREDS: values, columns.ADVANTAGES: advantages, columns.VALUE_TARGETS: targets}
    found |= {columns.ACTION_LOGP: log_probs, columns.ACTION_DIST_INPUTS: inputs}


def policy_of(learner: Learner, fragment: Fragment, distribution: Distribution) -> tuple[Array, Array]:
    """Return the inputs of the learner's distributions [T, L, P] for a fragment, and the log-probabilities [T, L]."""
    steps, lanes = fragment.shape
    obs, actions = fragment.columns[columns.OBS], fragment.columns[columns.ACTIONS]
    rows = actions.reshape(steps * lanes, *actions.shape[2:])
    given: dict[str, Any] = {columns.OBS: obs.reshape(steps * lanes, *obs.shape[2:])}
    if learner.module.state():
        first = {name: state[0] for name, state in fragment.state_in.items()}
        given = {columns.OBS: obs, columns.STATE_IN: first, columns.RESETS: fragment.columns[columns.RESETS]}
    module = cast(ActorCritic, learner.module)

    def policy(nn: Ops, parameters: Parameters) -> tuple[Any, Any]:
        inputs = module.explore(nn, parameters, given)[columns.ACTION_DIST_INPUTS]
        return inputs, distribution.log_prob(nn, inputs, nn.constant(rows))

    inputs, log_probs = (np.asarray(found) for found in learner.evaluate(policy))
    return inputs.reshape(steps, lanes, -1), log_probs.reshape(steps, lanes)


def with_advantages(learner: Learner, fragment: Fragment, *, gamma: float, lambda_: float) -> Batch:
    """Return the fragment as a batch with `advantages` and `value_targets`, by generalized advantage estimation.

    The arguments are those of `estimate_advantages`.
    """
    estimate_advantages(learner, fragment, gamma=gamma, lambda_=lambda_)
    return fragment.batch()


def standardise_advantages(fragments: Sequence[Fragment]) -> None:
    """Let the advantages of all steps of some fragments have mean 0 and standard deviation 1."""
    found = [fragment.columns[columns.ADVANTAGES] for fragment in fragments]
    made = [
        numbers.ravel() if fragment.valid is None else numbers[fragment.valid]
        for numbers, fragment in zip(found, fragments, strict=True)
    ]
    every = made[0] if len(made) == 1 else np.concatenate(made)
    mean, spread = every.mean(), np.float32(_spread(every))
    for fragment, numbers in zip(fragments, found, strict=True):
        fragment.columns[columns.ADVANTAGES] = (numbers - mean) / spread


def explained_variance(fragments: Sequence[Fragment]) -> float:
    """Return how much of the variance of the targets of values these had foreseen: at most 1, and -1 if not that."""
    parts = []
    for fragment in fragments:
        steps = slice(None) if fragment.valid is None else fragment.valid
        parts.append([fragment.columns[name][steps].ravel() for name in _FORESEEN])
    values, targets = (np.concatenate(each).astype(np.float64) for each in zip(*parts, strict=True))
    return max(-1.0, 1.0 - float((targets - values).var()) / max(float(targets.var()), 1e-12))


_FORESEEN = (columns.VF_PREDS, columns.VALUE_TARGETS)


def standardised(numbers: Array) -> Array:
    """Return numbers with mean 0 and standard deviation 1; those that are all alike become 0."""
    even: Array = (numbers - numbers.mean()) / np.float32(_spread(numbers))
    return even


def _spread(numbers: Array) -> float:
    return max(float(numbers.std()), 1e-4)


def _values(learner: Evaluates, inputs: Mapping[str, Any]) -> Array:
    module = cast(ActorCritic, learner.module)

    def values(nn: Ops, parameters: Parameters) -> Array:
        found: Array = module.values(nn, parameters, inputs)
        return found

    return np.asarray(learner.evaluate(values))


def _values_beyond(learner: Evaluates, fragment: Fragment, rows: Array) -> Array:
    """Return the values of the last and final observations, remembered after the steps that they follow."""
    steps, lanes = fragment.beyond_at().T
    inputs = {
        columns.OBS: np.stack([fragment.columns[columns.OBS][steps, lanes], rows]),
        columns.STATE_IN: {name: state[steps, lanes] for name, state in fragment.state_in.items()},
        columns.RESETS: np.zeros((2, len(rows)), bool),
    }
    return _values(learner, inputs)[len(rows) :]
