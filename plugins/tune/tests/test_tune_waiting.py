"""Trials for which there is no room: nothing waits without saying for what."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from kernel_tune.execution.resources import PlacementGroupFactory, Resources, Room

import kernel
from kernel import tune

pytestmark = pytest.mark.usefixtures("session", "results")


def objective(config: dict[str, Any]) -> None:
    tune.report({"loss": 1})


def fit(resources: Any, **settings: Any) -> Any:
    return tune.Tuner(
        tune.with_resources(objective, resources),
        tune_config=tune.TuneConfig(**settings),
        run_config=tune.RunConfig(name="waiting", verbose=0),
    ).fit()


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"cpu": 64}, "needs 64 CPU, and all machines together have 2 CPU"),
        (PlacementGroupFactory([{"CPU": 1}, {"CPU": 2}]), "needs 3 CPU, and all machines together have 2 CPU"),
        (
            PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}], "STRICT_SPREAD"),
            r"needs 1 CPU and 1 CPU \(STRICT_SPREAD\), and the machines have 2 CPU",
        ),
    ],
)
def test_what_never_finds_room_is_an_error_that_says_so(resources: Any, said: str) -> None:
    with pytest.raises(tune.TuneError, match=f"can't go on: trial objective_.* {said}.*; ask for less, or say queue_"):
        fit(resources)
    with pytest.raises(tune.TuneError, match=said):
        tune.run(objective, resources_per_trial=resources, verbose=0)


def test_trials_that_are_to_wait_for_machines_say_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        results = fit({"cpu": 64}, queue_trials=True, time_budget_s=3)
    assert len(results) == 1
    (text,) = [record.getMessage() for record in caplog.records]
    assert "nothing runs until there is another machine: trial objective_" in text and "needs 64 CPU" in text


def test_a_process_that_does_not_begin_says_what_it_waits_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_tune.execution.waiting._PATIENCE_SECONDS", 0.1)

    class Holder:
        def hold(self) -> None:
            pass

    holder = kernel.remote(Holder).options(num_cpus=2).remote()
    kernel.get(holder.hold.remote())
    said = threading.Event()

    class Listens(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()
            kernel.kill(holder)

    listens = Listens()
    logging.getLogger("kernel.tune").addHandler(listens)
    try:
        assert fit({"cpu": 1})[0].metrics["loss"] == 1
    finally:
        logging.getLogger("kernel.tune").removeHandler(listens)
    assert said.is_set()
    (text,) = [record.getMessage() for record in caplog.records if "has waited" in record.getMessage()]
    assert text.startswith("trial objective_") and "wants CPU: 1" in text and "held by Holder (2)" in text


def test_a_bundle_needs_a_machine_of_its_size() -> None:
    room = Room({"CPU": 4.0}, [{"CPU": 2.0}, {"CPU": 1.0}, {"CPU": 1.0}])
    one, two, three = {"CPU": 1.0}, {"CPU": 2.0}, {"CPU": 3.0}
    assert room.has_places(Resources(cpu=2)) and not room.has_places(Resources(cpu=3))
    assert room.has_places(Resources(cpu=2, extra_cpu=2)) and not room.has_places(Resources(cpu=1, extra_cpu=3))
    for strategy, bundles, fits in [
        ("PACK", [two, two], True),
        ("PACK", [one, three], False),
        ("STRICT_PACK", [one, one], True),
        ("STRICT_PACK", [one, two], False),
        ("STRICT_SPREAD", [one, one, one], True),
        ("STRICT_SPREAD", [one, one, one, one], False),
        ("SPREAD", [one, one, one, one], True),
    ]:
        assert room.has_places(PlacementGroupFactory(bundles, strategy)) is fits, (strategy, bundles)
    assert Room({"CPU": 4.0}).has_places(Resources(cpu=3))  # nobody has said what the machines have


def test_an_experiment_of_an_earlier_version_goes_on() -> None:
    room = Room({"CPU": 4.0})
    del room.nodes  # as that one has written it down
    assert room.has_places(Resources(cpu=3)) and room.nodes == ()
