"""The log of population based training: one line for each exploit, and the schedule that it describes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from kernel_runs.arguments import ArgumentError

GLOBAL_LOG = "pbt_global.txt"
"""The file with all exploits of an experiment, in their order."""


def policy_log(trial_id: str) -> str:
    """Return the name of the file whose last lines are the exploits that led to a trial's present state."""
    return f"pbt_policy_{trial_id}.txt"


@dataclass(frozen=True)
class Exploit:
    """A trial has continued from the state of a donor."""

    tag: str
    donor_tag: str
    iteration: int
    donor_iteration: int
    old_config: dict[str, Any]
    """The donor's configuration."""
    new_config: dict[str, Any]

    def line(self) -> str:
        """Return it as a JSON list of six. Values that JSON can't represent are written as strings."""
        return json.dumps(astuple(self), default=_as_json)


@dataclass(frozen=True)
class Policy:
    """Holds a first configuration, and the iterations (of results) at which others replace it."""

    first: dict[str, Any] | None
    changes: tuple[tuple[int, dict[str, Any]], ...]


def read_policy(lines: Iterable[str], name: str) -> Policy:
    """Return the schedule that leads to the last line of a policy log.

    Going back from there, a line belongs to the schedule if its trial is the donor of the line after it, with the
    configuration that the line after it started from. The first line for which that is not so ends the schedule. Raises
    `ArgumentError` that names the file and the line if a line is not a list of six.
    """
    steps = [_parse(line, f"{name}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    chain: list[Exploit] = []
    for step in reversed(steps):
        if chain:
            later = chain[-1]
            follows = step.tag == later.donor_tag and step.new_config == later.old_config
            if not follows or step.donor_iteration > later.donor_iteration:
                break
        chain.append(step)
    chain.reverse()
    changes = tuple((step.donor_iteration, step.new_config) for step in chain)
    return Policy(chain[0].old_config if chain else None, changes)


def _parse(line: str, where: str) -> Exploit:
    try:
        step = Exploit(*json.loads(line))
    except (ValueError, TypeError) as error:
        raise ArgumentError(
            f"{where} is {line.strip()[:80]!r}, but must be a JSON list of six: tag, donor's tag, iteration, donor's "
            f"iteration, old configuration, new configuration, as {GLOBAL_LOG} and pbt_policy files have them"
        ) from error
    return step


def _as_json(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else str(value)
