"""Status blocks, tables, and what a reporter may be asked."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest
from kernel_tune.reporters import (
    CLIReporter,
    ExperimentInfo,
    ProgressReporter,
    node_memory,
    show,
)
from kernel_tune.reporters.text import duration, text_table
from kernel_tune.reporters.trials_table import trials_table
from kernel_tune.trial import Status, Trial

from kernel import tune

GIB = 1024**3
INFO = ExperimentInfo(
    "myexp", "/results/myexp", "Using FIFO scheduling algorithm.", {"CPU": 4},
    {"CPU": 12, "GPU": 0, "memory": 3.17 * GIB, "object_store_memory": 1.07 * GIB, "node:10.0.0.1": 1},
    (11.4 * GIB, 16 * GIB),
)  # fmt: skip


def a_trial(number: int = 0, status: str = "RUNNING", result: dict[str, Any] | None = None, **other: Any) -> Trial:
    name = f"MyTrainable_a82{number:05x}"
    values = {
        "trainable_name": "MyTrainable",
        "trial_id": f"a82{number:05x}",
        "name": name,
        "local_dir": "/results/myexp",
        "status": Status(status),
        "last_result": result or {},
        "config": {"a": 0.5},
        "evaluated_params": {"a": 0.5},
    }
    return Trial(**{**values, **other})


def test_the_status_block_is_the_documented_one() -> None:
    result = {"score": 0.1289, "time_total_s": 7.54952, "training_iteration": 15, "node_ip": "10.234.98.164",
              "pid": 31115, "timesteps_this_iter": 3, "done": False}  # fmt: skip
    out = io.StringIO()
    reporter = CLIReporter(stream=out, clock=lambda: 90.5)
    reporter.setup(start_time=1.5)
    assert show(reporter, [a_trial(result=result)], INFO)
    lines = out.getvalue().splitlines()
    assert lines[0] == "== Status ==" and lines[1].endswith("(running for 00:01:29)")
    assert lines[2:] == [
        "Memory usage on this node: 11.4/16.0 GiB",
        "Using FIFO scheduling algorithm.",
        "Resources requested: 4/12 CPUs, 0/0 GPUs, 0.0/3.17 GiB heap, 0.0/1.07 GiB objects",
        "Result logdir: /results/myexp",
        "Number of trials: 1 (1 RUNNING)",
        "+----------------------+---------+---------------------+-----+--------+----------------+------+",
        "| Trial name           | status  | loc                 |   a |  score | total time (s) | iter |",
        "|----------------------+---------+---------------------+-----+--------+----------------+------|",
        "| MyTrainable_a8200000 | RUNNING | 10.234.98.164:31115 | 0.5 | 0.1289 |        7.54952 |   15 |",
        "+----------------------+---------+---------------------+-----+--------+----------------+------+",
        "",
    ]


def test_automatic_metrics_are_shown_by_their_short_names_and_empty_columns_are_not() -> None:
    result = {"mean_accuracy": 0.5, "mean_loss": 1.5, "episode_reward_mean": 97.1, "timesteps_total": 100}
    reporter = CLIReporter()
    assert reporter.table([a_trial(result=result)]).header == [
        "Trial name", "status", "a", "acc", "loss", "reward", "ts",
    ]  # fmt: skip
    assert reporter.table([a_trial(evaluated_params={})]).header == ["Trial name", "status"]


def test_other_numbers_are_inferred_up_to_a_limit() -> None:
    result = {"b": 1, "text": "x", "flag": True, "c": 2.5, "done": False, "pid": 3, "d": 4, "e": 5}
    assert CLIReporter(infer_limit=2).table([a_trial(result=result)]).header[3:] == ["b", "c"]
    assert CLIReporter(metric_columns=["e"]).table([a_trial(result=result)]).header[3:] == ["e"]
    named = CLIReporter(metric_columns={"e": "E"}, parameter_columns={"a": "alpha"})
    assert named.table([a_trial(result=result)]).header == ["Trial name", "status", "alpha", "E"]


def test_columns_can_be_added() -> None:
    result = {"x": 1, "y": {"z": 2}, "training_iteration": 3}
    reporter = CLIReporter(infer_limit=0)
    reporter.add_metric_column("y/z", "depth")
    reporter.add_parameter_column("deep/b", "B")
    trial = a_trial(result=result, config={"a": 0.5, "deep": {"b": "relu"}})
    assert reporter.table([trial]).header == ["Trial name", "status", "B", "depth", "iter"]
    assert reporter.table([trial]).rows == [[str(trial), "RUNNING", "relu", 2, 3]]
    with pytest.raises(ValueError, match="column 'y/z' is there already"):
        reporter.add_metric_column("y/z")
    listed = CLIReporter(metric_columns=["x"])
    listed.add_metric_column("y/z")
    assert listed.table([trial]).header[-2:] == ["x", "y/z"]
    with pytest.raises(ValueError, match=r"can't be shown as 'Q': the columns were given as a list"):
        listed.add_metric_column("q", "Q")


def test_a_long_table_shows_some_of_each_status() -> None:
    trials = [a_trial(i, "PENDING") for i in range(10)] + [a_trial(10 + i, "TERMINATED", {"s": i}) for i in range(6)]
    trials += [a_trial(20), a_trial(21, "ERROR", error_file="/e", failures=2)]
    reporter = CLIReporter(max_progress_rows=8, metric="s", mode="max", sort_by_metric=True)
    table = reporter.table(trials)
    assert [row[1] for row in table.rows] == ["RUNNING", *["PENDING"] * 3, *["TERMINATED"] * 3, "ERROR"]
    assert [row[-1] for row in table.rows if row[1] == "TERMINATED"] == [5, 4, 3]
    assert table.hidden == "... 10 more trials not shown (7 PENDING, 3 TERMINATED)"
    assert len(reporter.table(trials, done=True).rows) == 18
    nan = [
        a_trial(1, "TERMINATED", {"s": float("nan")}),
        a_trial(2, "TERMINATED", {}),
        a_trial(3, "TERMINATED", {"s": 1}),
    ]
    assert trials_table(nan, ["s"], metric="s", mode="min").trials[0] is nan[2]


def test_long_texts_are_cut_and_numbers_have_six_digits() -> None:
    trial = a_trial(config={}, evaluated_params={"a": "x" * 50, "b": 1 / 3, "c": [1, 2]}, result={"m": 1e-9})
    (row,) = CLIReporter(max_column_length=10).table([trial]).rows
    assert row[2] == "..." + "x" * 7 and row[4] == "[1, 2]"
    assert text_table(["n", "s"], [[1 / 3, "a"], [None, "bb"]]).splitlines()[3:5] == [
        "| 0.333333 | a  |",
        "|          | bb |",
    ]
    assert text_table(["n"], []) == "+---+\n| n |\n|---|\n+---+"


def test_failed_trials_have_a_table_with_their_error_files() -> None:
    trials = [a_trial(1, "ERROR", error_file="/e/1", failures=3), a_trial(2, error_file="/e/2", failures=1)]
    text = CLIReporter(max_error_rows=1).progress_text(trials, False)
    assert "Number of errored trials: 2\nTable truncated to 1 rows (1 overflow)\n" in text
    assert "| MyTrainable_a8200001 | 3          | /e/1       |" in text and "/e/2" not in text
    text = CLIReporter(max_error_rows=1).progress_text(trials, True)
    assert "| MyTrainable_a8200002 | 1*         | /e/2       |" in text and "* The trial was tried again." in text


def test_the_best_trial_so_far_is_named() -> None:
    trials = [a_trial(i, result={"loss": loss}) for i, loss in enumerate([3.0, float("nan"), 1.5, 2.0])]
    reporter = CLIReporter()
    reporter.setup(metric="loss", mode="min", total_samples=8)
    text = reporter.progress_text(trials, False)
    assert "Current best trial: a8200002 with loss=1.5 and parameters={'a': 0.5}\n" in text
    assert "Number of trials: 4/8 (4 RUNNING)" in text
    own = CLIReporter(metric="loss", mode="max")
    own.setup(metric="other", mode="min")
    assert "Current best trial: a8200000" in own.progress_text(trials, False)
    with pytest.raises(ValueError, match="mode is 'best': it is 'min' or 'max'"):
        CLIReporter(mode="best")


def test_tables_between_can_be_left_out() -> None:
    reporter = CLIReporter(print_intermediate_tables=False)
    assert "+--" not in reporter.progress_text([a_trial()], False)
    assert "+--" in reporter.progress_text([a_trial()], True)
    assert "Number of trials: 0" in reporter.progress_text([], True)


def test_the_older_listing_groups_by_status() -> None:
    result = {"pid": 11664, "time_total_s": 0.4, "timesteps_total": 100, "episode_reward_mean": 97.12}
    trials = [
        a_trial(i, "PAUSED", result, trainable_name="my_class", experiment_tag=f"{i}_height=99") for i in range(10)
    ] + [a_trial(11, "PENDING", trainable_name="my_class", experiment_tag="11_height=1")]  # fmt: skip
    out = io.StringIO()
    CLIReporter(stream=out, grouped=True).report(trials, False, "Using HyperBand: num_stopped=0 total_brackets=5")
    lines = out.getvalue().splitlines()
    begin = lines.index("PAUSED trials:")
    assert lines[begin + 1] == "- my_class_0_height=99: PAUSED [pid=11664], 0 s, 100 ts, 97.1 rew"
    assert lines[begin + 6 : begin + 9] == [
        "... 5 more not shown",
        "PENDING trials:",
        "- my_class_11_height=1: PENDING",
    ]


def test_reports_come_no_more_often_than_asked_for() -> None:
    now = [100.0]
    reporter = CLIReporter(max_report_frequency=5, clock=lambda: now[0])
    assert reporter.should_report([]) and not reporter.should_report([])
    now[0] += 4.9
    assert not reporter.should_report([]) and reporter.should_report([], done=True)
    now[0] += 5
    assert reporter.should_report([])


class TrialTerminationReporter(CLIReporter):
    """As documented: it does not call the base class."""

    def __init__(self) -> None:
        self.num_terminated = 0

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        old, self.num_terminated = self.num_terminated, len([t for t in trials if t.status == Trial.TERMINATED])
        return self.num_terminated > old


def test_documented_subclasses_work(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = TrialTerminationReporter()
    reporter.setup(metric="a", mode="max")
    assert not show(reporter, [a_trial()], INFO)
    assert show(reporter, [a_trial(), a_trial(1, "TERMINATED")], INFO)
    reporter.add_metric_column("custom_metric")
    assert "(1 RUNNING, 1 TERMINATED)" in capsys.readouterr().out
    assert CLIReporter()._added_metrics == {}


def test_a_reporter_of_ones_own_gets_lines_about_the_system() -> None:
    class Own(ProgressReporter):
        def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
            return done

        def report(self, trials: Sequence[Trial], *sys_info: Any) -> None:
            self.heard = sys_info

    own = Own()
    assert not show(own, [], INFO) and show(own, [], INFO, done=True)
    assert own.heard == (True, *INFO.lines()) and own.experiment is INFO
    with pytest.raises(NotImplementedError, match="ProgressReporter must define should_report"):
        ProgressReporter().should_report([])


def test_what_a_machine_does_not_tell_is_left_out() -> None:
    assert ExperimentInfo().lines() == ()
    assert (
        ExperimentInfo(total={"CPU": 2, "disk": 3}, used={"disk": 0.5}).resources() == "0/2 CPUs, 0/0 GPUs, 0.5/3 disk"
    )
    memory = node_memory()
    assert memory is None or 0 < memory[0] < memory[1]
    assert [duration(0), duration(3661), duration(90000.9)] == ["00:00:00", "01:01:01", "1 days, 01:00:00"]


@pytest.mark.usefixtures("session", "results")
def test_the_end_is_shown_once() -> None:
    shown: list[bool] = []

    class Always(CLIReporter):
        def should_report(self, trials: Any, done: bool = False) -> bool:
            return True

        def report(self, trials: Any, done: bool, *sys_info: str) -> None:
            if len(trials) == 3 and all(trial.has_ended for trial in trials):
                shown.append(done)

    tune.run(lambda config: {"loss": 1}, num_samples=3, progress_reporter=Always(), verbose=1)
    assert shown == [True]
