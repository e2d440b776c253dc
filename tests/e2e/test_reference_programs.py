"""Random programs over references on three nodes, beside a model: nothing is freed early, nothing is kept for ever.

`python -m benchmarks.chaos` runs the same programs for minutes, with everything else failing meanwhile.
"""

from __future__ import annotations

import pytest

from benchmarks.chaos.references import RandomProgram
from benchmarks.chaos.soak import wait_until_empty
from benchmarks.outcome import Outcome
from kernel.testing import Cluster

PROGRAMS = 3
STEPS = 60
SECONDS = 120.0


@pytest.mark.parametrize("deaths", [False, True], ids=["everybody lives", "holders are killed"])
@pytest.mark.parametrize("seed", range(1))
def test_a_live_reference_reads_right_and_a_dead_one_leaves_nothing(
    cluster: Cluster, seed: int, deaths: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.outcome.HANG_SECONDS", SECONDS)
    for number in range(PROGRAMS):
        outcome = Outcome()
        program = RandomProgram(1000 * seed + number, outcome, STEPS, deaths, undisturbed=True)
        program.run()
        assert not outcome.wrong, outcome.wrong[0]
        assert outcome.right["references"] > 0
        assert wait_until_empty(SECONDS) == [], "\n".join(program.history)
