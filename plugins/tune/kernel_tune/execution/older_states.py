"""States of trial loops as earlier versions wrote them into the directories of experiments."""

from __future__ import annotations

from typing import Any

from kernel_tune.execution.trial_table import TrialTable
from kernel_tune.execution.trial_transitions import TrialTransitions

_OF_TABLE = ("max_concurrent", "room", "trials", "outstanding", "is_stopping")


def state_in_parts(state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a loop that was one class as those of a loop with a table and transitions."""
    table = TrialTable()
    vars(table).update({name: state[name] for name in _OF_TABLE})
    vars(table).update({name: state[f"_{name}"] for name in ("live", "running", "pending", "may_start")})
    vars(table).update({name: state[name] for name in ("_by_id", "_progress")})
    transitions = TrialTransitions(table, state["algorithm"], state["scheduler"])
    vars(transitions).update({name: state[name] for name in ("_instructions", "_results", "_deciding")})
    kept = {name: state[name] for name in ("specs", "algorithm", "scheduler", "_always_asks")}
    return {**kept, "_table": table, "_transitions": transitions}
