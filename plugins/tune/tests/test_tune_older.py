"""What programs of earlier releases do: search algorithms that make whole trials; arguments that are refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import kernel
from kernel import tune
from kernel.tune.execution.searcher_algorithm import BasicVariantGenerator, SearcherAlgorithm
from kernel.tune.execution.spec import ExperimentSpec
from kernel.tune.schedulers import AsyncHyperBandScheduler
from kernel.tune.searchers import RandomSearch, Searcher
from kernel.tune.storage import sync
from kernel_runs.storage import copies

pytestmark = pytest.mark.usefixtures("session", "results")


def score(config: dict[str, Any]) -> dict[str, Any]:
    return {"score": config["x"] * config.get("factor", 1)}


class Listed(tune.SearchAlgorithm):
    """Makes a trial of each of some values, two at a time; adds one when the first has ended."""

    def __init__(self) -> None:
        self.left = [1, 2, 3]
        self.experiments: list[tune.Experiment] = []
        self.heard: list[tuple[str, float]] = []

    def add_configurations(self, experiments: Any) -> None:
        self.experiments += tune.convert_to_experiments(experiments)

    def next_trials(self) -> list[tune.Trial]:
        values, self.left = self.left[:2], self.left[2:]
        spec = self.experiments[0].spec
        return [tune.Trial(spec["run"], {**spec["config"], "x": value}) for value in values]

    def is_finished(self) -> bool:
        return not self.left

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.heard.append((trial_id, (result or {})["score"]))
        if len(self.heard) == 1:
            self.left.append(4)


def test_an_algorithm_of_ones_own_makes_the_trials() -> None:
    algorithm = Listed()
    trials = tune.run(
        score, name="listed", search_alg=algorithm, config={"factor": 10}, verbose=0, max_concurrent_trials=1
    ).trials
    assert [trial.last_result["score"] for trial in trials] == [10, 20, 30, 40]
    assert algorithm.heard == [(trial.trial_id, trial.last_result["score"]) for trial in trials]
    assert [len(trial.trial_id) for trial in trials] == [8] * 4 and trials[0].experiment_tag == "0"
    assert Path(trials[0].logdir).parent.name == "listed" and str(trials[0]) == f"score_{trials[0].trial_id}"


def test_what_is_no_trial_is_named() -> None:
    class Wrong(Listed):
        def next_trials(self) -> Any:
            return [{"x": 1}]

    with pytest.raises(tune.TuneError, match=r"Wrong.next_trials\(\) returned {'x': 1}: it returns a list of tune.Tri"):
        tune.run(score, search_alg=Wrong(), verbose=0)
    with pytest.raises(tune.TuneError, match=r"SearchAlgorithm raised NotImplementedError: SearchAlgorithm makes no"):
        tune.run(score, search_alg=tune.SearchAlgorithm(), verbose=0)


def test_variants_by_hand() -> None:
    generator = BasicVariantGenerator()
    generator.add_configurations(
        {
            "one": {"run": score, "config": {"x": tune.grid_search([1, 2])}, "num_samples": 2},
            "two": {"run": "score", "config": {"x": 3}},
        }
    )
    trials = generator.next_trials()
    assert [trial.config["x"] for trial in trials] == [1, 2, 1, 2, 3] and generator.is_finished()
    assert [os.path.basename(trial.local_dir) for trial in trials] == ["one"] * 4 + ["two"]
    assert len({trial.trial_id for trial in trials}) == 5


def test_a_searcher_as_an_algorithm_serves_several_experiments() -> None:
    algorithm = SearcherAlgorithm(RandomSearch(seed=1))
    trials = tune.run_experiments(
        {
            name: {"run": score, "config": {"x": tune.uniform(low, low + 1)}, "num_samples": 2}
            for name, low in (("low", 0), ("high", 10))
        },
        search_alg=algorithm,
        verbose=0,
        reuse_actors=True,
    )
    assert [int(trial.config["x"]) // 10 for trial in trials] == [0, 0, 1, 1]
    assert [Path(trial.logdir).parent.name for trial in trials] == ["low", "low", "high", "high"]
    assert all("score" in trial.last_result for trial in trials) and algorithm.total_samples == 4


def test_an_experiment_that_was_moved_goes_on_where_it_is(results: Path, tmp_path: Path) -> None:
    switch = tmp_path / "works"

    def halting(config: dict[str, Any]) -> None:
        checkpoint = tune.get_checkpoint()
        begin = checkpoint.to_dict()["step"] if checkpoint is not None else 0
        for step in range(begin + 1, 4):
            tune.report({"step": step, "begin": begin}, checkpoint=tune.Checkpoint.from_dict({"step": step}))
            if step == 2 and not switch.exists():
                raise ValueError("not yet")

    address = f"file://{tmp_path}/elsewhere"
    settings = tune.RunConfig(name="moved", storage_path=address, verbose=0, resume="AUTO")
    assert tune.Tuner(halting, run_config=settings).fit().num_errors == 1
    switch.touch()
    shutil.move(results / "moved", results / "at another place")
    (result,) = tune.Tuner.restore(str(results / "at another place"), halting, resume_errored=True).fit()
    assert result.metrics["step"] == 3 and result.metrics["begin"] == 2
    assert Path(result.path).parent.name == "at another place" and not (results / "moved").exists()
    assert Path(result.path, "checkpoint_000003").exists()
    (fetched,) = tune.Tuner(halting, run_config=settings).fit()  # what was copied there, with the failed trial
    assert fetched.metrics["step"] == 2 and Path(fetched.path).parent == results / "moved"


class Counting(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.count = 0

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count, "done": self.count == 2}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.count = checkpoint["count"]


def test_a_copied_checkpoint_of_a_class_is_whole(tmp_path: Path) -> None:
    (trial,) = tune.run(
        Counting, name="copied", checkpoint_at_end=True, upload_dir=f"file://{tmp_path}/copies", verbose=0,
        return_trials=True,
    )  # fmt: skip
    there = tune.Checkpoint(f"file://{tmp_path}/copies/copied/{trial}/checkpoint_000002")
    again = Counting()
    again.restore(there.to_directory(tmp_path / "fetched"))
    assert again.count == again.iteration == 2


def test_a_copy_is_of_one_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is reported while files are copied may be of checkpoints that the copy does not have."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name in ("experiment.log", "experiment.pkl", "result.json", "gone.json"):
        source.joinpath(name).write_text("early")
    list_files = copies._files

    def late(folder: str, last: list[str]) -> list[tuple[str, str]]:
        found = list_files(folder, last)
        source.joinpath("experiment.log").write_text("early and late")
        source.joinpath("gone.json").unlink()
        return found

    monkeypatch.setattr(copies, "_files", late)
    sync.copy_by_fsspec(str(source), f"file://{target}")
    assert {path.name: path.read_text() for path in target.iterdir()} == {
        name: "early" for name in ("experiment.log", "experiment.pkl", "result.json")
    }


def test_silence_and_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    tune.run(score, config={"x": 1}, progress_reporter=tune.CLIReporter(), verbose=0)
    assert capsys.readouterr().out == ""
    experiment = tune.Experiment("e", score, sync_to_driver="rsync -a {source}")
    for run in (tune.run, tune.run_experiments):
        with pytest.raises(ValueError, match=r"'rsync -a \{source\}' must contain \{source\} and \{target\}"):
            run(experiment, verbose=0)


def test_several_metrics_of_a_searcher() -> None:
    searcher = Searcher(metric=["error", "size"], mode=["min", "max"])
    assert (searcher.metric, searcher.mode, searcher.total_samples) == (["error", "size"], ["min", "max"], None)
    assert Searcher(metric=["error", "size"], mode="min").mode == ["min", "min"]
    with pytest.raises(ValueError, match=r"mode is \['min'\] and metric \['a', 'b'\]: give 'min' or 'max' for each"):
        Searcher(metric=["a", "b"], mode=["min"])
    with pytest.raises(ValueError, match=r"RandomSearch optimises one metric, not \['a', 'b'\]: TPESearch takes"):
        RandomSearch(metric=["a", "b"], mode=["min", "max"])  # type: ignore[arg-type]


def test_the_state_of_a_scheduler() -> None:
    first, second = (AsyncHyperBandScheduler(metric="score", mode="max", max_t=9) for _ in range(2))
    first.grace = 3  # type: ignore[attr-defined]
    second.set_state(first.get_state())
    assert second.grace == 3 and second.metric == "score"  # type: ignore[attr-defined]


def test_without_a_session() -> None:
    """The last of this module: it ends the session that the others share."""
    before = os.getcwd()
    kernel.shutdown()
    with kernel.init(local_mode=True):
        (trial,) = tune.run(score, config={"x": 1}, verbose=0).trials
    assert trial.last_result["score"] == 1 and os.getcwd() == before


def test_amounts_of_resources_may_depend_on_what_was_chosen() -> None:
    given = {"cpu": 1, "gpu": lambda spec: spec.config.gpus, "extra_cpu": lambda spec: spec["workers"]}
    spec = ExperimentSpec("name", "trainable", "/nowhere", resources=given)
    request = spec.request_for({"gpus": 0.5, "workers": 2})
    assert (request.cpu, request.gpu, request.extra_cpu) == (1.0, 0.5, 2.0)
    assert spec.fixed_request is None and spec.__getstate__()["resources"] is None
    with pytest.raises(AttributeError, match="the trial's config has no 'gpus'; it has workers"):
        spec.request_for({"workers": 2})
