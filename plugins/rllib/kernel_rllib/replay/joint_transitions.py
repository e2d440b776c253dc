"""Joint transitions of several agents, as rows that have the transitions of all of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import EnvError
from kernel_rllib.replay.transitions import Transitions

_NOT_TOGETHER = (
    "{} did not act {}, and all are learned from together: let all agents act in each step, as long as the episode "
    "lasts, and map each to a policy of its own"
)


class JointTransitions:
    """Makes rows of fragments that follow one another, one of each agent at a time."""

    def __init__(self, agents: Sequence[str], *, n: int, gamma: Mapping[str, float]) -> None:
        """Make rows of these agents, in this order.

        Args:
            agents: The ids of their policies.
            n: The number of rewards that a transition sums up.
            gamma: The discount factor of each agent, for a reward that comes one step later.
        """
        self._of = {agent: Transitions(n=n, gamma=gamma[agent]) for agent in agents}

    def of(self, fragments: Mapping[str, Fragment]) -> Batch:
        """Return the rows that are complete with these fragments: columns as `column(...)` names them.

        Raises:
            EnvError: If the agents did not act in the same steps.
        """
        self._require_same_steps(fragments)
        made = {agent: transitions.of(fragments[agent]) for agent, transitions in self._of.items()}
        joint = Batch()
        for place, batch in enumerate(made.values()):
            for name, values in batch.items():
                joint[column(name, place)] = values
        return joint

    def require_steps_of_all(self, fragments: Mapping[str, Sequence[Fragment]], env_steps: int) -> None:
        """Raise EnvError where agents took turns: each has fewer steps then than the environments made."""
        for agent, each in fragments.items():
            waiting = 2 * sum(len(fragment.lanes) for fragment in each)  # First and last steps that are not complete.
            if agent in self._of and sum(fragment.steps for fragment in each) + waiting < env_steps:
                raise EnvError(_NOT_TOGETHER.format(f"the agent of the policy {agent!r}", "in each step"))

    def state(self) -> dict[str, Any]:
        """Return the steps that wait, by the places of agents."""
        return {str(place): transitions.state() for place, transitions in enumerate(self._of.values())}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `state` returned."""
        for place, transitions in enumerate(self._of.values()):
            transitions.set_state(state[str(place)])

    def _require_same_steps(self, fragments: Mapping[str, Fragment]) -> None:
        first, *others = self._of
        for other in (*others, *(set(self._of) - set(fragments))):
            if other not in fragments or first not in fragments or not _alike(fragments[first], fragments[other]):
                agents = f"the agents of the policies {first!r} and {other!r}"
                raise EnvError(_NOT_TOGETHER.format(agents, "in the same steps"))


def column(name: str, place: int) -> str:
    """Return what a column of the agent at a place is called in joint rows."""
    return f"{name}.{place}"


def _alike(one: Fragment, other: Fragment) -> bool:
    """Return whether two fragments have steps, and ends of episodes, at the same places."""
    if one.shape != other.shape or (one.valid is None) != (other.valid is None):
        return False
    same = one.valid is None or np.array_equal(one.valid, other.valid)  # type: ignore[arg-type]
    return same and np.array_equal(_ends(one), _ends(other))


def _ends(fragment: Fragment) -> Array:
    found: Array = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
    return found
