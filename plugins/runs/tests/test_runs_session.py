"""`report` and its sisters find the session of what runs here: of the thread, of the process, or none."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import kernel
import kernel_runs
from kernel_runs import Checkpoint, Context, RunError, session
from kernel_runs.place import Place


class Worker:
    """A session such as a library of several workers has."""

    def __init__(self, rank: int, **shards: Any) -> None:
        self.place = Place(f"id{rank}", f"name{rank}", "experiment", "/nowhere")
        self.checkpoint: Checkpoint | None = Checkpoint(f"/kept/{rank}")
        self.reports: list[Any] = []
        self.shards = shards
        self.context = RankedContext(rank)

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None = None) -> None:
        self.reports.append((metrics, checkpoint))

    def dataset_shard(self, name: str | None = None) -> Any:
        return self.shards[name or "train"]


class RankedContext(Context):
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def get_world_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return 2


@pytest.fixture
def worker() -> Any:
    one = Worker(1, train="the first half", test="all")
    session.enter(one)
    yield one
    session.leave(one)


def test_what_is_reported_goes_to_the_session(worker: Worker) -> None:
    kept = Checkpoint("/a")
    kernel_runs.report({"a": 1}, checkpoint=kept)
    kernel_runs.report(metrics={"a": 1}, b=2)
    kernel_runs.report(a=3)
    kernel_runs.report(checkpoint=kept)
    assert worker.reports == [({"a": 1}, kept), ({"a": 1, "b": 2}, None), ({"a": 3}, None), ({}, kept)]
    assert kernel_runs.get_checkpoint() == Checkpoint("/kept/1")


def test_the_context_is_the_sessions(worker: Worker) -> None:
    context = kernel_runs.get_context()
    assert (context.get_world_rank(), context.get_world_size()) == (1, 2)
    assert (context.get_local_rank(), context.get_local_world_size(), context.get_node_rank()) == (0, 1, 0)
    assert (context.get_trial_id(), context.get_trial_name(), context.get_experiment_name()) == (
        "id1",
        "name1",
        "experiment",
    )
    assert (session.get_trial_id(), session.get_trial_name()) == ("id1", "name1")


def test_a_shard_is_the_sessions_and_without_one_an_error(worker: Worker) -> None:
    assert kernel_runs.get_dataset_shard() == "the first half" and kernel_runs.get_dataset_shard("test") == "all"
    session.leave(worker)
    with pytest.raises(
        RunError, match=r"^there is no shard of dataset 'test' here: get_dataset_shard\(\) is for the workers"
    ):
        kernel_runs.get_dataset_shard("test")
    with pytest.raises(RunError, match="no shard of dataset 'train' here"):
        kernel_runs.get_dataset_shard()


def test_other_threads_find_the_only_session_of_a_process_and_none_of_several(worker: Worker) -> None:
    found: list[Any] = []

    def look() -> None:
        found.append(session.current())

    def in_a_thread(what: Any) -> None:
        thread = threading.Thread(target=what)
        thread.start()
        thread.join()

    in_a_thread(look)
    other = Worker(0)

    def with_another() -> None:
        session.enter(other)
        look()
        in_a_thread(look)
        session.leave(other)
        look()

    in_a_thread(with_another)
    assert found == [worker, other, None, worker]
    assert session.current() is worker


def test_who_left_for_good_reports_nothing_and_is_nowhere(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    session.leave_for_good(worker)
    kernel_runs.report(a=1)
    assert worker.reports == [] and kernel_runs.get_checkpoint() is None and not caplog.records
    Place.set_current(worker.place)
    try:
        assert kernel_runs.get_context().get_trial_id() is None
    finally:
        Place.set_current(None)
    session.enter(worker)
    kernel_runs.report(a=2)
    assert worker.reports == [({"a": 2}, None)]


def test_outside_of_a_run_it_is_said_once_that_nothing_is_done(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_warned", set())
    with caplog.at_level(logging.WARNING, "kernel.runs"):
        for _ in range(2):
            kernel_runs.report(a=1)
            assert kernel_runs.get_checkpoint() is None
    assert [record.getMessage() for record in caplog.records] == [
        "report() does nothing here: it was called outside of a run",
        "get_checkpoint() does nothing here: it was called outside of a run",
    ]
    context = kernel_runs.get_context()
    assert [context.get_trial_id(), context.get_trial_dir(), context.get_trial_resources()] == [None] * 3
    assert (context.get_world_rank(), context.get_world_size()) == (0, 1)
    assert session.get_trial_dir() is None


def test_in_a_class_it_is_a_mistake() -> None:
    Place.set_current(Place("id", "name"))
    try:
        assert kernel_runs.get_context().get_trial_id() == "id"
        with pytest.raises(RunError, match=r"^report\(\) was called in a Trainable class: .* from step\(\)"):
            kernel_runs.report(a=1)
    finally:
        Place.set_current(None)


def test_in_a_task_it_is_a_mistake() -> None:
    @kernel.remote
    def tells() -> str:
        try:
            kernel_runs.report(a=1)
        except RunError as error:
            return str(error)
        return "nothing"

    kernel.shutdown()
    with kernel.init(local_mode=True):
        said = kernel.get(tells.remote())
        kernel_runs.report(a=1)  # of the program itself
    assert said.startswith("report() was called in task ") and "only a trial's own process reports" in said


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (((5,), {}), r"as a dict or as keywords, not 5: report\(\{'some_name': ...\}\)"),
        ((("high",), {}), r"as a dict or as keywords, not 'high'$"),
        (((), {"metrics": [1]}), r"as a dict or as keywords, not \[1\]$"),
        (((), {"a": 1, "checkpoint": "place"}), r"a Checkpoint as checkpoint, not 'place': Checkpoint.from_directory"),
        (((), {"a": 1, "checkpoint": {"b": 1}}), r"report\(\) takes a Checkpoint as checkpoint, not \{'b': 1\}$"),
        (((), {}), r"report\(\) needs metrics: a dict, or keywords"),
    ],
)
def test_what_is_no_report_is_refused_everywhere(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        kernel_runs.report(*given[0], **given[1])
