"""What is written down of a trial loop: loops of earlier versions go on, and the form of today's is pinned."""

from __future__ import annotations

import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parent / "golden" / "one_class"


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that made `moments.pkl`."""
    monkeypatch.syspath_prepend(str(GOLDEN))
    import moments

    yield moments
    del sys.modules["moments"]


@pytest.mark.parametrize("number", range(3))
def test_a_loop_that_was_one_class_goes_on_to_the_same_end(moments: Any, number: int) -> None:
    pickled, outcome = pickle.loads((GOLDEN / "moments.pkl").read_bytes())[number]
    world = moments.world_at(pickle.loads(pickled))
    world.loop.validate()
    assert world.run()
    assert world.outcome() == outcome


def test_a_loop_goes_on_from_what_is_written_of_it_today(moments: Any) -> None:
    world = moments.world()
    world.run(25)
    rest = moments.world_at(pickle.loads(pickle.dumps(moments.moment_of(world))))
    world.order = rest.order
    assert world.run() and rest.run()
    assert rest.outcome() == world.outcome()


def test_the_form_of_what_is_written_is_this_one(moments: Any) -> None:
    """A change of this list is a change of the file format: add a reader of the older form, as `older_states` is one.

    Names of modules and classes must still lead to classes that take the attributes, `kernel_tune.moved` if need be.
    """
    world = moments.world()
    for _ in range(200):
        world.run(1)
        if any(world.loop.progress_of(trial).replacement for trial in world.loop.trials):
            break
    loop = pickle.loads(pickle.dumps(world.loop))
    assert _classes(pickle.dumps(world.loop)) == {
        "kernel_runs.resources Resources",
        "kernel_tune.execution.checkpoint_book CheckpointBook",
        "kernel_tune.execution.checkpoint_book Kept",
        "kernel_tune.execution.generation SearchGenerator",
        "kernel_tune.execution.generation TrialMaker",
        "kernel_tune.execution.loop TrialLoop",
        "kernel_tune.execution.progress Copy",
        "kernel_tune.execution.progress Progress",
        "kernel_tune.execution.progress Replacement",
        "kernel_tune.execution.resources Room",
        "kernel_tune.execution.spec CheckpointPolicy",
        "kernel_tune.execution.spec ExperimentSpec",
        "kernel_tune.execution.state_copies StateCopies",
        "kernel_tune.execution.trial_table TrialTable",
        "kernel_tune.execution.trial_transitions TrialTransitions",
        "kernel_tune.trainable.orders Saved",
        "kernel_tune.trial MetricHistory",
        "kernel_tune.trial Status",
        "kernel_tune.trial Trial",
    }
    assert sorted(vars(loop)) == ["_always_asks", "_table", "_transitions", "algorithm", "scheduler", "specs"]
    assert sorted(vars(loop._table)) == [
        "_by_id", "_progress", "is_stopping", "live", "max_concurrent", "may_start", "outstanding", "pending", "room",
        "running", "trials",
    ]  # fmt: skip
    assert sorted(vars(loop._transitions)) == [
        "_algorithm", "_copies", "_deciding", "_instructions", "_results", "_scheduler", "_table",
    ]  # fmt: skip
    assert sorted(vars(loop.progress_of(loop.trials[0]))) == [
        "book", "copies", "demand", "donor", "donors", "first_state", "goes_on", "pause_asked", "replacement",
        "saves_to", "spec", "state", "state_results", "stop_asked", "waits_for",
    ]  # fmt: skip


def _classes(pickled: bytes) -> set[str]:
    """Return the classes of the loop that a pickle names, without those of searchers and schedulers."""
    strings: list[str] = []
    found = set()
    memo: dict[int, str] = {}
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            strings.append(str(argument))
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = strings[-1] if strings else ""
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            strings.append(memo[int(argument)])
        elif opcode.name == "STACK_GLOBAL":
            found.add(f"{strings[-2]} {strings[-1]}")
    others = ("kernel_tune.schedulers", "kernel_tune.search_space", "kernel_tune.searchers")
    return {name for name in found if name.startswith("kernel_") and not name.startswith(others)}
