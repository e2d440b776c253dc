"""Experiments that are kept on a real S3-compatible server. By hand: starting one takes seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from kernel_tune.examples import durable_example
from moto.server import ThreadedMotoServer

import kernel
from kernel import tune

BUCKET = "results"


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """Start a server with a bucket, and a session that knows of it; return a client that looks from outside."""
    monkeypatch = pytest.MonkeyPatch()
    running = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    _, port = running.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    with kernel.init(num_cpus=2, log_to_driver=False):
        yield client
    running.stop()
    monkeypatch.undo()


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a directory of experiments for each test."""
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))


def names(client: Any, prefix: str) -> list[str]:
    """Return the names of all that is below a prefix."""
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return [each["Key"].removeprefix(prefix) for each in found]


class Counting(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        if self.count == 3 and not Path(self.config["switch"]).exists():
            raise ConnectionError("not yet")
        return {"count": self.count}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def test_an_experiment_goes_on_from_s3_when_its_machine_is_lost(server: Any, tmp_path: Path) -> None:
    def search(resume: str = "AUTO") -> Any:
        return tune.Tuner(
            Counting,
            param_space={"x": tune.grid_search([1, 2]), "switch": str(tmp_path / "works")},
            run_config=tune.RunConfig(
                name="kept", storage_path=f"s3://{BUCKET}/tune", verbose=0, resume=resume, stop={"count": 4},
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            ),
        ).fit()  # fmt: skip

    first = search()
    assert first.num_errors == 2
    there = names(server, "tune/kept/")
    assert {"experiment.log", "experiment.pkl", "experiment_state.json"} <= set(there)
    for result in first:
        for name in ("result.json", "checkpoint_000002/.tune_metadata", "checkpoint_000002/checkpoint_dict.pkl"):
            assert f"{Path(result.path).name}/{name}" in there
    shutil.rmtree(tmp_path / "results")
    (tmp_path / "works").touch()
    assert tune.Tuner.can_restore(f"s3://{BUCKET}/tune/kept")
    again = tune.Tuner.restore(f"s3://{BUCKET}/tune/kept", Counting, resume_errored=True).fit()
    assert [result.metrics["count"] for result in again] == [4, 4]
    assert [result.metrics["iterations_since_restore"] for result in again] == [2, 2]
    assert sum(name.endswith("checkpoint_000004/.tune_metadata") for name in names(server, "tune/kept/")) == 2
    shutil.rmtree(tmp_path / "results")
    assert [result.metrics["count"] for result in search()] == [4, 4]


def test_checkpoints_of_a_durable_trainable(server: Any) -> None:
    analysis = durable_example.main(smoke_test=True, upload_dir=f"s3://{BUCKET}/durable")
    assert analysis.best_result["count"] == 6 and analysis.best_result["iterations_since_restore"] == 2
    address = f"s3://{BUCKET}/durable/durable/{analysis.trials[0]}/checkpoint_000006"
    assert "checkpoint_dict.pkl" in {path.name for path in Path(tune.Checkpoint(address).to_directory()).iterdir()}
