"""Results, grids and analyses, of directories and of trials in memory."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_tune import analysis
from kernel_tune.analysis import Analysis, ExperimentAnalysis, Result, ResultGrid
from kernel_tune.errors import CheckpointError, MetricError, OptionalDependencyError, TrialError, TuneError
from kernel_tune.loggers import CSVLoggerCallback, JsonLoggerCallback
from kernel_tune.trial import MetricHistory, Status, Trial

SCORES = {"a": [1, 9, 2], "b": [3, 4, 5], "c": [8, 1, math.nan], "d": [math.inf, 0, 4.5]}


def make(folder: Path, logger: Callable[[], Any] = JsonLoggerCallback) -> list[Trial]:
    """Run and log an experiment: one trial for each entry of `SCORES`, of which the last has failed."""
    trials = []
    for index, (name, scores) in enumerate(SCORES.items()):
        config = {"lr": 0.1 * index, "net": {"width": 2**index}}
        trial = Trial("f", config=config, trial_id=f"0000000{name}", index=index, local_dir=str(folder),
                      name=f"f_0000000{name}", evaluated_params={"lr": 0.1 * index},
                      experiment_tag=f"{index}_lr=1")  # fmt: skip
        JsonLoggerCallback().update_config(trial, config)
        log = logger()
        log.on_trial_start(0, trials, trial)
        results = [
            {"score": score, "nested": {"x": -score}, "training_iteration": i, "trial_id": trial.trial_id,
             "experiment_tag": trial.experiment_tag, "timestamp": 1000 + i, "time_total_s": float(i), "config": config,
             "done": i == 3 and name != "d"}
            for i, score in enumerate(scores, start=1)
        ]  # fmt: skip
        log.on_trial_results(0, trials, trial, results)
        trial.last_result, trial.results = results[-1], 3
        trial.status = Status.ERROR if name == "d" else Status.TERMINATED
        for number in (1, 3) if name in "ab" else ():
            (Path(trial.logdir) / f"checkpoint_{number:06d}").mkdir()
        trials.append(trial)
    (Path(trials[-1].logdir) / "error.txt").write_text("Traceback\nValueError: no\n")
    trials[-1].error_file = str(Path(trials[-1].logdir) / "error.txt")
    return trials


@pytest.fixture(params=["trials", "directory", "csv"])
def experiment(request: pytest.FixtureRequest, tmp_path: Path) -> ExperimentAnalysis:
    """The same experiment: as trials in memory, from its directory, and from one with tables only."""
    trials = make(tmp_path / "e", CSVLoggerCallback if request.param == "csv" else JsonLoggerCallback)
    given = trials if request.param == "trials" else None
    return ExperimentAnalysis(tmp_path / "e", trials=given)


@pytest.mark.parametrize(
    ("mode", "scope", "best"),
    [("max", "all", "a"), ("max", "last", "b"), ("max", "avg", "c"), ("max", "last-5-avg", "c"), ("min", "all", "d"),
     ("min", "last", "a"), ("min", "avg", "d"), ("min", "last-10-avg", "d")],
)  # fmt: skip
def test_scopes_say_what_of_a_trial_is_compared(
    experiment: ExperimentAnalysis, mode: str, scope: str, best: str
) -> None:
    found = experiment.get_best_trial("score", mode, scope)
    assert found is not None and found.trial_id == f"0000000{best}"
    assert experiment.get_best_logdir("score", mode, scope) == found.logdir
    assert ResultGrid(experiment).get_best_result("score", mode, scope).path == found.logdir
    nested = experiment.get_best_trial("nested/x", "min" if mode == "max" else "max", scope)
    assert nested is found


def test_infinite_values_count_only_when_asked_for(experiment: ExperimentAnalysis) -> None:
    assert experiment.get_best_trial("score", "max", "all", filter_nan_and_inf=False).trial_id == "0000000d"


def test_what_trials_have_in_memory_is_enough(tmp_path: Path) -> None:
    trials = [Trial("f", trial_id=str(i), metrics={"s": MetricHistory(max=i, min=-i, last=0)}) for i in range(3)]
    found = ExperimentAnalysis(tmp_path, trials=trials)
    assert found.get_best_trial("s", "max").trial_id == "2" and found.get_best_trial("s", "min").trial_id == "2"


def test_the_experiments_own_metric_is_the_default(tmp_path: Path) -> None:
    trials = make(tmp_path)
    found = ExperimentAnalysis(str(tmp_path / "experiment_state.json"), trials, "score", "max")
    assert found.best_trial is trials[1] and found.best_config == trials[1].config
    assert found.best_result["score"] == 5 and found.best_logdir == trials[1].logdir
    assert found.best_checkpoint.path.endswith("checkpoint_000003") and found.get_best_config() == trials[0].config
    assert list(found.best_dataframe.score) == [3, 4, 5] and found.best_result_df.index[0] == "0000000b"
    assert ResultGrid(trials, "score", "min", path=str(tmp_path)).get_best_result().metrics["score"] == 2
    with pytest.raises(ValueError, match=r"by which metric\? Give one \(metric=...\)"):
        _ = ExperimentAnalysis(tmp_path, trials).best_trial
    assert ExperimentAnalysis(tmp_path, trials, default_mode="min").default_metric == "episode_reward_mean"


def test_wrong_arguments_say_what_is_right(experiment: ExperimentAnalysis, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match="mode is 'best': it is 'min' or 'max'"):
        experiment.get_best_trial("score", "best")
    with pytest.raises(ValueError, match=r"scope is 'first': it is one of 'last', 'all', 'avg'"):
        experiment.get_best_trial("score", "max", "first")
    assert experiment.get_best_trial("nothing", "max") is None and experiment.get_best_config("nothing") is None
    assert "none has reported a number as 'nothing', but nested/x, score" in caplog.text
    with pytest.raises(MetricError, match=r"no trial of .* has a value of 'nothing'.*have reported nested/x, score"):
        ResultGrid(experiment).get_best_result("nothing", "max")


def test_a_dataframe_has_a_row_for_each_trial(experiment: ExperimentAnalysis) -> None:
    last = experiment.dataframe()
    assert list(last["score"])[:2] == [2, 5] and list(last["nested/x"])[:2] == [-2, -5]
    assert list(last["config/net/width"]) == [1, 2, 4, 8]
    assert list(last.logdir) == [trial.logdir for trial in experiment.trials]
    best = experiment.dataframe(metric="score", mode="max")
    assert list(best["score"]) == [9, 5, 8, 4.5] and list(best.training_iteration) == [2, 3, 1, 3]
    assert list(ResultGrid(experiment).get_dataframe("score", "min")["score"]) == [1, 3, 1, 0]


def test_each_trial_has_a_dataframe(experiment: ExperimentAnalysis) -> None:
    for frames in (experiment.trial_dataframes, experiment.fetch_trial_dataframes()):
        assert list(frames) == [trial.logdir for trial in experiment.trials]
        assert [frame.score[0] for frame in frames.values()] == [1, 3, 8, math.inf]
        assert list(frames["0000000b"]["nested/x"]) == [-3, -4, -5]
        with pytest.raises(KeyError, match="neither the directory nor the id of a trial"):
            frames["other"]


def test_configurations_are_a_list_that_knows_the_directories(experiment: ExperimentAnalysis) -> None:
    configs = experiment.get_all_configs()
    assert (
        [config["net"]["width"] for config in configs] == [1, 2, 4, 8] == [c["net"]["width"] for c in configs.values()]
    )
    assert dict(configs.items())[experiment.trials[2].logdir] == configs[2]
    assert experiment.get_all_configs(prefix=True)[1] == {"config/lr": 0.1, "config/net/width": 2}


def test_checkpoints_are_found_with_their_metrics(experiment: ExperimentAnalysis) -> None:
    a, b, c, _ = experiment.trials
    paths = experiment.get_trial_checkpoints_paths(a)
    assert [(Path(path).name, metric) for path, metric in paths] == [("checkpoint_000001", 1), ("checkpoint_000003", 3)]
    assert [metric for _, metric in experiment.get_trial_checkpoints_paths(b.logdir, "score")] == [3, 5]
    assert experiment.get_best_checkpoint(b, "score", "min").path.endswith("_000001")
    assert experiment.get_last_checkpoint(b.logdir).path.endswith("_000003")
    assert experiment.get_last_checkpoint().path == paths[1][0] and experiment.get_best_checkpoint(c, "score") is None


def test_other_directories_are_no_checkpoints(tmp_path: Path) -> None:
    trial = make(tmp_path)[2]
    for name in ("checkpoint_2", "checkpoint_tmp77", "checkpoint_x", "other"):
        (tmp_path / trial.name / name).mkdir()
    (tmp_path / trial.name / "checkpoint_9").write_text("a file")
    assert [metric for _, metric in Analysis(tmp_path).get_trial_checkpoints_paths(trial, "score")] == [1]


def test_a_grid_is_a_sequence_of_results(experiment: ExperimentAnalysis) -> None:
    grid = ResultGrid(experiment)
    assert len(grid) == 4 and grid[0] is grid[0] and grid[-1].path == experiment.trials[3].logdir
    assert (
        [result.metrics["training_iteration"] for result in grid] == [3, 3, 3, 3]
        and len(grid[1:3]) == 2
        and grid.results == list(grid)
    )
    with pytest.raises(IndexError):
        grid[4]
    assert (grid.num_errors, grid.num_terminated, len(grid.errors)) == (1, 3, 1)
    assert isinstance(grid.errors[0], TrialError) and "ValueError: no" in str(grid.errors[0])
    assert grid[3].error is not None and grid[0].error is None
    assert grid.experiment_path == experiment.experiment_path and "4 trials" in repr(grid)


def test_a_result_has_all_that_came_of_a_trial(experiment: ExperimentAnalysis) -> None:
    grid = ResultGrid(experiment)
    for result in (grid[1], Result.from_path(grid[1].path)):
        assert result.metrics["score"] == 5 and result.config["net"]["width"] == 2
        assert result.checkpoint.path == str(Path(result.path) / "checkpoint_000003")
        assert list(result.metrics_dataframe["score"]) == [3, 4, 5]
        assert [metrics["score"] for _, metrics in result.best_checkpoints] == [3, 5]
        assert result.get_best_checkpoint("score", "min").path.endswith("_000001")
        assert "'score': 5" in repr(result)
        with pytest.raises(CheckpointError, match=r"no checkpoint of .* has the metric 'loss': its checkpoints have"):
            result.get_best_checkpoint("loss", "min")
    with pytest.raises(CheckpointError, match="it has no checkpoints"):
        grid[2].get_best_checkpoint("score", "max")


def test_an_analysis_takes_several_experiments_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "one")
    make(tmp_path / "two")
    (tmp_path / "two/f_0000000b/result.json").open("a").write('{"score": 77, "half a line')
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    found = Analysis(f"~/{tmp_path.name}", default_metric="score", default_mode="max")
    assert len(found.trials) == 8 and found.get_best_logdir() == str(tmp_path / "one/f_0000000a")
    assert found.dataframe()["score"].max() == 5
    with pytest.raises(TuneError, match=r"has no trials.*its trials must have run with the JSON logger"):
        Analysis(tmp_path / "one/f_0000000a/checkpoint_000001")
    with pytest.raises(TuneError, match="is not the directory of a run"):
        Result.from_path(tmp_path)


def test_what_the_experiment_has_written_of_itself_is_used(tmp_path: Path) -> None:
    trials = make(tmp_path)
    entry = {"logdir": f"/elsewhere/{trials[0].name}", "status": "ERROR", "trial_id": "0000000a",
             "evaluated_params": {"lr": 0.0}}  # fmt: skip
    state = {"experiments": [{"metric": "score", "mode": "min"}], "trials": [entry]}
    (tmp_path / "experiment_state.json").write_text(json.dumps(state))
    found = ExperimentAnalysis(tmp_path / "experiment_state.json")
    assert found.trials[0].status is Status.ERROR and found.trials[0].evaluated_params == {"lr": 0.0}
    assert found.best_trial.trial_id == "0000000a" and found.default_mode == "min"
    (tmp_path / "experiment_state.json").write_text("{half")
    assert ExperimentAnalysis(tmp_path).trials[0].status is Status.TERMINATED


def test_the_older_name_of_the_parameters_is_read_too(tmp_path: Path) -> None:
    trial = make(tmp_path)[0]
    (tmp_path / trial.name / "params.json").rename(tmp_path / trial.name / "param.json")
    assert Analysis(tmp_path).trials[0].config == trial.config


def test_an_experiment_has_numbers_about_itself(experiment: ExperimentAnalysis) -> None:
    stats = experiment.stats()
    assert stats["num_trials"] == 4 and stats["statuses"] == {"TERMINATED": 3, "ERROR": 1}
    assert (stats["start_time"], stats["timestamp"]) == (1000.0, 1003)
    assert experiment.runner_data() == {"total_time": 12.0, "iterations": 12, "results": 12, "failures": 0}
    own = ExperimentAnalysis(experiment.experiment_path, [], stats={"a": 1}, runner_data={"b": 2})
    assert own.stats() == {"a": 1} and own.runner_data() == {"b": 2}
    assert set(experiment.results) == {f"0000000{name}" for name in SCORES}
    assert experiment.results_df.loc["0000000b", "score"] == 5


def test_without_pandas_all_but_tables_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    grid = ResultGrid(ExperimentAnalysis(tmp_path, make(tmp_path)))
    assert grid.get_best_result("score", "max").metrics["score"] == 5
    with pytest.raises(OptionalDependencyError, match=r'a table of results needs.*"kernel-tune\[pandas\]"'):
        grid.get_dataframe()


def test_every_name_is_exported() -> None:
    assert all(getattr(analysis, name) is not None for name in analysis.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analysis.nothing


def test_the_package_exports_what_programs_use() -> None:
    import kernel_tune

    for name in ("Analysis", "ExperimentAnalysis", "Result", "ResultGrid"):
        assert getattr(kernel_tune, name) is getattr(analysis, name)
    from kernel_tune import loggers, reporters

    assert kernel_tune.CLIReporter is reporters.CLIReporter and kernel_tune.loggers is loggers
    assert kernel_tune.JupyterNotebookReporter is reporters.JupyterNotebookReporter
    assert kernel_tune.ProgressReporter is reporters.ProgressReporter


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = Path(make(tmp_path)[0].logdir) / "result.json"
    path.write_text('{"a": 1}\nbroken\n{"a": 2}\n')
    with pytest.raises(
        TuneError, match=r"result.json is damaged: it has a line that is not a JSON object .*: 'broken'. Remove it"
    ):
        Analysis(tmp_path)
