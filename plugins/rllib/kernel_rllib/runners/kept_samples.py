"""Samples as checkpoints keep them: as arrays and plain values, without pickles but for what callbacks report."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from kernel_rllib.connectors.moments import Moments
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.episodes import EpisodeSummary


def state_of_rounds(rounds: Sequence[Sequence[Sample]]) -> dict[str, Any]:
    """Return rounds of samples as a tree that `checkpoints.tree` writes."""
    return {str(number): _numbered(map(_state_of, samples)) for number, samples in enumerate(rounds)}


def rounds_of_state(state: Mapping[str, Any]) -> list[list[Sample]]:
    """Return the rounds that `state_of_rounds` was called of. What callbacks reported of them is unpickled."""
    return [[_sample_of(found) for found in _in_order(samples)] for samples in _in_order(state)]


def forget_reports(state: Mapping[str, Any]) -> None:
    """Drop what callbacks reported of the rounds in a state, so that reading it unpickles nothing."""
    for samples in state.values():
        for sample in samples.values():
            sample["report"] = None


def _state_of(sample: Sample) -> dict[str, Any]:
    assert sample.made is None  # The results that runners send in place of samples are not kept.
    return {
        "fragments": {module_id: fragment.arrays() for module_id, fragment in sample.fragments.items()},
        "episodes": [astuple(episode) for episode in sample.episodes],
        "env_steps": sample.env_steps,
        "agent_steps": sample.agent_steps,
        "seconds": sample.seconds,
        "runner": sample.runner,
        "report": None if sample.report is None else pickle.dumps(sample.report),
        "learned": {name: moments.arrays() for name, moments in sample.learned.items()},
    }


def _sample_of(state: Mapping[str, Any]) -> Sample:
    return Sample(
        fragments={module_id: Fragment.of_arrays(arrays) for module_id, arrays in state["fragments"].items()},
        episodes=[EpisodeSummary.of_list(episode) for episode in state["episodes"]],
        env_steps=int(state["env_steps"]),
        agent_steps=int(state["agent_steps"]),
        seconds=float(state["seconds"]),
        runner=int(state["runner"]),
        report=None if state["report"] is None else pickle.loads(state["report"]),
        learned={name: Moments.of_arrays(arrays) for name, arrays in state["learned"].items()},
    )


def _numbered(values: Iterable[Any]) -> dict[str, Any]:
    return {str(number): value for number, value in enumerate(values)}


def _in_order(numbered: Mapping[str, Any]) -> list[Any]:
    return [numbered[number] for number in sorted(numbered, key=int)]
