"""Copies elsewhere that can't be made: said before anything runs where that is known, and with what is where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fsspec.registry import known_implementations

from kernel import tune

pytestmark = pytest.mark.usefixtures("session", "results")


def objective(config: dict[str, Any]) -> None:
    Path(config["ran"]).touch()
    tune.report({"loss": 1})


def run(tmp_path: Path, **arguments: Any) -> tune.ExperimentAnalysis:
    return tune.run(objective, name="mine", config={"ran": str(tmp_path / "ran")}, verbose=0, **arguments)


def test_an_address_that_nobody_knows_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As for s3 where s3fs is not installed. What another test has once loaded here, fsspec would go on to know.
    monkeypatch.setitem(known_implementations, "far", {"class": "farfs.FileSystem", "err": "Install farfs"})
    for address, reason in [("nope://bucket", "Protocol not known: nope"), ("far://bucket", "Install farfs")]:
        with pytest.raises(tune.TuneError, match=f"nothing can be copied to {address}/mine: .*{reason}"):
            run(tmp_path, upload_dir=address)
    assert not (tmp_path / "ran").exists()


def test_a_last_copy_that_fails_says_where_everything_is_and_can_be_made_later(tmp_path: Path, results: Path) -> None:
    def fails(source: str, target: str) -> None:
        raise OSError("no way there")

    elsewhere = f"file://{tmp_path}/elsewhere"
    with pytest.raises(
        tune.TuneError, match=r"all of it is in .*/mine, but could not .*elsewhere/mine: OSError: no way"
    ):
        run(tmp_path, upload_dir=elsewhere, sync_to_cloud=fails)
    (tmp_path / "ran").unlink()
    analysis = run(tmp_path, upload_dir=elsewhere, resume=True)
    assert analysis.trials[0].last_result["loss"] == 1 and not (tmp_path / "ran").exists()
    assert (tmp_path / "elsewhere" / "mine" / "experiment_state.json").exists()
