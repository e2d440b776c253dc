"""The log of population based training: one line for each exploit, and the schedule that can be read from it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from kernel_runs.arguments import ArgumentError

GLOBAL_LOG = "pbt_global.txt"
"""All exploits of an experiment, in the order in which they happened."""


def policy_log(trial_id: str) -> str:
    """Return the name of the file whose last lines are how a trial came to its present state."""
    return f"pbt_policy_{trial_id}.txt"


@dataclass(frozen=True)
class Exploit:
    """A trial went on from the state of a donor."""

    tag: str
    donor_tag: str
    iteration: int
    donor_iteration: int
    old_config: dict[str, Any]
    """The donor's."""
    new_config: dict[str, Any]

    def line(self) -> str:
        """Return it as a JSON list of six; what JSON has not is written as its string."""
        return json.dumps(astuple(self), default=_as_json)


@dataclass(frozen=True)
class Policy:
    """A configuration to begin with, and at which iteration (of the result) another takes its place."""

    first: dict[str, Any] | None
    changes: tuple[tuple[int, dict[str, Any]], ...]


def read_policy(lines: Iterable[str], name: str) -> Policy:
    """Return the schedule that leads to the last line of a policy log.

    Going back from there, a line belongs to the schedule if its trial is the donor of the line after it, with just the
    configuration that the line after it started from; the first that does not ends it. Raises `ArgumentError`, naming
    the file and the line, where a line is not a list of six.
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
