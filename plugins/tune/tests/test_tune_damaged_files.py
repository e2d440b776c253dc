"""Files of an experiment that something has damaged: the message names the file, and says what is to be had."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.storage import event_log

from kernel import tune
from kernel.tune.analysis import ResultGrid

pytestmark = pytest.mark.usefixtures("session", "results")


def reports(config: dict[str, Any]) -> None:
    for step in range(3):
        tune.report({"loss": step})


@pytest.fixture
def ended(results: Path) -> Path:
    """The directory of an experiment that has ended."""
    grid = tune.Tuner(
        reports, tune_config={"metric": "loss", "mode": "min"}, run_config={"name": "ended", "verbose": 0}
    ).fit()
    return Path(grid.experiment_path)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\xff\xfe garbage", "can't decode byte 0xff"), (b"garbage", "Expecting value"), (b"[1, 2]", "it is a list"),
        (b"\0\0\0", "Expecting value"), (b"[" * 200_000, "recursion"), (b"5", "it is a int"),
    ],
)  # fmt: skip
def test_a_damaged_result_is_named(ended: Path, line: bytes, reason: str) -> None:
    [file] = ended.glob("*/result.json")
    file.write_bytes(file.read_bytes() + line + b"\n")
    for read in (ResultGrid, lambda path: tune.Tuner.restore(path, reports).get_results()[0].history):
        with pytest.raises(
            tune.TuneError, match=f"{file} is damaged: it has a line that is not a JSON object.*{reason}"
        ):
            read(str(ended))


def test_a_damaged_table_and_damaged_parameters_are_named(ended: Path) -> None:
    [file] = ended.glob("*/params.json")
    file.write_bytes(b"{\xff")
    with pytest.raises(tune.TuneError, match=f"{file} is damaged: it has a text that is not a JSON object"):
        ResultGrid(str(ended))
    file.unlink()
    file.with_name("result.json").unlink()
    table = file.with_name("progress.csv")
    table.write_bytes(table.read_bytes() + b"\xff\xfe\n")
    with pytest.raises(tune.TuneError, match=f"{table} is damaged: it is not a table"):
        ResultGrid(str(ended))


@pytest.mark.parametrize("data", [b"", b"garbage", None, b"\x80\x05K\x01."])
def test_a_damaged_state_is_not_called_a_missing_module(ended: Path, data: bytes | None) -> None:
    file = ended / "experiment.pkl"
    file.write_bytes(file.read_bytes()[:-500] if data is None else data)
    tuner = tune.Tuner.restore(str(ended), reports)
    with pytest.raises(tune.TuneError, match=rf"{file} is damaged .*tune.ExperimentAnalysis\('{ended}'\)"):
        tuner.fit()
    assert tuner.get_results()[0].metrics["loss"] == 2, "what was reported is there"


def test_a_state_that_needs_a_module_says_so(ended: Path) -> None:
    (ended / "experiment.pkl").write_bytes(b"cnowhere_at_all\nThing\n.")
    with pytest.raises(tune.TuneError, match="No module named 'nowhere_at_all'.*it needs the same modules"):
        tune.Tuner.restore(str(ended), reports).fit()


@pytest.mark.parametrize("data", [b"garbage", b"\x80\x05K\x01."])
def test_damaged_settings_are_warned_of(ended: Path, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (ended / "tuner.pkl").write_bytes(data)
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        tuner = tune.Tuner.restore(str(ended), reports)
    assert f"{ended / 'tuner.pkl'} can't be read" in caplog.text and "unless they are given again" in caplog.text
    assert len(tuner.get_results()) == 1


def test_a_damaged_log_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "experiment.log"
    log = event_log.EventLog(str(path))
    for number in range(3):
        log.add(("answer", number))
    log.close()
    whole = path.read_bytes()
    first = next(event_log.read(str(path)))[0]
    path.write_bytes(whole[: first + 12] + b"?" + whole[first + 13 :])
    with caplog.at_level(logging.WARNING, "kernel.tune"):
        assert [record for _, record in event_log.read(str(path))] == [("answer", 0)]
    assert f"{path} is damaged after {first} bytes" in caplog.text
    caplog.clear()
    path.write_bytes(whole[:-1])
    assert len(list(event_log.read(str(path)))) == 2 and not caplog.text, "half a record is from a kill"
    path.write_bytes(whole + bytes(64))
    assert len(list(event_log.read(str(path)))) == 3, "zeros are from a machine that stopped"
