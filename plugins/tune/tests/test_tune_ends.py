"""How trials and experiments end that do not do so by themselves, or not well."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from kernel_tune.execution.budget import TimeBudget

from kernel import tune

pytestmark = pytest.mark.usefixtures("session", "results")

_FOR_EVER = 1000.0


def hangs(config: dict[str, Any]) -> None:
    tune.report({"loss": 1})
    time.sleep(_FOR_EVER)


class Hangs(tune.Trainable):
    def step(self) -> dict[str, Any]:
        time.sleep(_FOR_EVER if self.iteration else 0.1)  # longer than results wait for others to travel with
        return {"loss": 1}


@pytest.mark.parametrize("trainable", [hangs, Hangs])
def test_trials_that_hang_are_ended(
    trainable: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results: set[str] = set()
    over_at: list[float] = []
    events = TimeBudget.events

    class Notes(tune.Callback):
        def on_trial_result(self, iteration: int, trials: Any, trial: tune.Trial, *rest: Any, **info: Any) -> None:
            results.add(trial.trial_id)

    def over_when_two_have_results(self: TimeBudget, used_seconds: float, *loop: Any) -> Any:
        if len(results) < 2:
            return []
        over_at.append(used_seconds)
        return events(self, used_seconds - over_at[0], *loop)

    monkeypatch.setattr(TimeBudget, "events", over_when_two_have_results)
    monkeypatch.setattr("kernel_tune.execution.budget._GRACE_SECONDS", 0.2)
    monkeypatch.setattr("kernel_tune.execution.runner._END_SECONDS", 0.2)
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        analysis = tune.run(
            trainable, name="mine", num_samples=3, time_budget_s=0.1, export_formats=["model"], verbose=0,
            callbacks=[Notes()],
        )  # fmt: skip
    assert [str(trial.status) for trial in analysis.trials] == ["TERMINATED"] * len(analysis.trials)
    assert {trial.last_result["loss"] for trial in analysis.trials if trial.results} == {1}
    texts = [record.getMessage() for record in caplog.records if "after the time was over" in record.getMessage()]
    assert texts and all("did not come to its next result within 0.2 s" in text for text in texts)
    again = tune.run(trainable, name="mine", resume=True, verbose=0)
    assert [trial.results for trial in again.trials] == [trial.results for trial in analysis.trials]


@pytest.mark.parametrize("fails", [True, False])
def test_a_cleanup_that_fails_or_hangs_is_named(
    fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Leaves(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"loss": 1}

        def cleanup(self) -> None:
            if fails:
                raise ArithmeticError("as it was told to")
            time.sleep(_FOR_EVER)

    if not fails:
        monkeypatch.setattr("kernel_tune.execution.runner._END_SECONDS", 0.2)
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        (trial,) = tune.run(Leaves, stop={"training_iteration": 1}, verbose=0).trials
    (text,) = [record.getMessage() for record in caplog.records]
    why = "failed: as it was told to" if fails else "took longer than 0.2 s: it is ended"
    assert str(trial.status) == "TERMINATED" and text == f"the cleanup of trial {trial} {why}"
