"""What is written for TensorBoard, read by TensorBoard's own reader."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams import plugin_data_pb2

from kernel_runs.loggers import TBXLoggerCallback
from kernel_runs.loggers import crc32c as crc32c_module
from kernel_runs.loggers.crc32c import checksum, crc32c_by_tables, masked
from kernel_runs.loggers.events import ScalarsTemplate, _head
from kernel_runs.run import Run


def written(folder: Path, results: list[dict[str, Any]], failed: bool = False, prefix: str = "", **trial: Any) -> Path:
    """Log a trial, and return its event file."""
    logger = TBXLoggerCallback(prefix, clock=lambda: 1_700_000_000.5)
    of = Run("f", **{"trial_id": "a826033a", "local_dir": str(folder), "name": "t", **trial})
    logger.on_trial_start(0, [of], of)
    logger.on_trial_results(0, [of], of, results)
    of.last_result = results[-1]
    (logger.on_trial_error if failed else logger.on_trial_complete)(1, [of], of)
    (path,) = (folder / "t").glob("events.out.tfevents.*")
    return path


def test_a_result_is_one_event_with_all_its_numbers(tmp_path: Path) -> None:
    results = [
        {"a": {"b": 1, "c": 2.5}, "flag": True, "n": np.int64(7), "text": "x", "timestamp": 1_700_000_000 + i,
         "training_iteration": i, "done": False, "config": {"x": 1}, "pid": 3, "zero": np.array(3.5),
         "word": np.array("a")}
        for i in (1, 2)
    ]  # fmt: skip
    version, *events = EventFileLoader(str(written(tmp_path, results))).Load()
    assert version.file_version == "brain.Event:2"
    assert [event.step for event in events] == [1, 2] and events[1].wall_time == 1_700_000_002
    values = {value.tag: value.tensor.float_val[0] for value in events[0].summary.value}
    assert values == {"a/b": 1.0, "a/c": 2.5, "flag": 1.0, "n": 7.0, "zero": 3.5}


def test_the_accumulator_shows_scalars_and_histograms(tmp_path: Path) -> None:
    results = [
        {"score": i / 4, "weights": np.arange(10) * i, "list": [1, 2, 2], "bad": [[]], "words": ["a"],
         "training_iteration": i}
        for i in range(1, 4)
    ]  # fmt: skip
    accumulator = EventAccumulator(str(written(tmp_path, results).parent), size_guidance={"histograms": 0})
    accumulator.Reload()
    assert [(event.step, event.value) for event in accumulator.Scalars("score")] == [(1, 0.25), (2, 0.5), (3, 0.75)]
    tags = accumulator.Tags()
    assert set(tags["histograms"]) == {"weights", "list"}
    histogram = accumulator.Histograms("weights")[2].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (0, 27, 10, 135)
    assert sum(histogram.bucket) == 10


def test_numbers_that_four_bytes_can_not_hold_are_written(tmp_path: Path) -> None:
    values = {"nan": math.nan, "inf": math.inf, "large": 1e300, "huge": 10**400, "small": -1e300, "last": 2}
    *_, event = EventFileLoader(str(written(tmp_path, [values, values]))).Load()
    read = {value.tag: value.tensor.float_val[0] for value in event.summary.value}
    assert math.isnan(read.pop("nan"))
    assert read == {"inf": math.inf, "large": math.inf, "huge": math.inf, "small": -math.inf, "last": 2.0}


def test_the_step_is_that_of_the_timesteps_where_they_are_reported(tmp_path: Path) -> None:
    results = [{"a": 1, "timesteps_total": 300, "training_iteration": 1}, {"a": 1}]
    _, *events = EventFileLoader(str(written(tmp_path, results))).Load()
    assert [(event.step, event.wall_time) for event in events] == [(300, 1_700_000_000.5), (2, 1_700_000_000.5)]


@pytest.mark.parametrize("failed", [False, True])
def test_hparams_are_written_when_a_trial_has_ended(failed: bool, tmp_path: Path) -> None:
    chosen = {"lr": np.float32(0.5), "layers/0": 16, "act": "relu", "flag": True, "fn": len, "nothing": None}
    path = written(
        tmp_path, [{"score": 2.0, "timestamp": 5, "xs": [1], "time_this_iter_s": 1}], failed, evaluated_params=chosen
    )
    *_, event = EventFileLoader(str(path)).Load()
    data = {}
    for value in event.summary.value:
        assert value.metadata.plugin_data.plugin_name == "hparams"
        data[value.tag] = plugin_data_pb2.HParamsPluginData.FromString(value.metadata.plugin_data.content)
    start = data["_hparams_/session_start_info"].session_start_info
    assert start.group_name == "t" and start.start_time_secs == 5
    assert start.hparams["lr"].number_value == 0.5 and start.hparams["layers/0"].number_value == 16
    assert start.hparams["act"].string_value == "relu" and start.hparams["flag"].bool_value
    assert "len" in start.hparams["fn"].string_value and start.hparams["nothing"].string_value == "None"
    experiment = data["_hparams_/experiment"].experiment
    assert [metric.name.tag for metric in experiment.metric_infos] == ["score"]
    assert {info.name: info.type for info in experiment.hparam_infos} == {
        "lr": 3, "layers/0": 3, "act": 1, "flag": 2, "fn": 1, "nothing": 1,
    }  # fmt: skip
    end = data["_hparams_/session_end_info"].session_end_info
    assert end.status == (2 if failed else 1) and end.end_time_secs == 5


def test_a_prefix_stands_before_every_tag(tmp_path: Path) -> None:
    path = written(tmp_path, [{"score": 2.0, "xs": [1]}], prefix="ray/tune/", evaluated_params={"x": 1})
    _, first, last = EventFileLoader(str(path)).Load()
    assert [value.tag for value in first.summary.value] == ["ray/tune/score", "ray/tune/xs"]
    content = last.summary.value[0].metadata.plugin_data.content
    experiment = plugin_data_pb2.HParamsPluginData.FromString(content).experiment
    assert [metric.name.tag for metric in experiment.metric_infos] == ["ray/tune/score"]


def test_a_trial_without_parameters_has_no_hparams_and_one_without_results_no_file(tmp_path: Path) -> None:
    assert len(list(EventFileLoader(str(written(tmp_path, [{"a": 1}]))).Load())) == 2
    logger, trial = TBXLoggerCallback(), Run("f", local_dir=str(tmp_path), name="u", evaluated_params={"x": 1})
    logger.on_trial_start(0, [trial], trial)
    logger.on_trial_complete(0, [trial], trial)
    assert not (tmp_path / "u").exists()


def test_checksums_are_those_of_the_standard() -> None:
    known = {
        b"": 0,
        b"123456789": 0xE3069283,
        bytes(32): 0x8A9136AA,
        b"\xff" * 32: 0x62A8AB43,
        bytes(range(32)): 0x46DD794E,
    }
    for data, value in known.items():  # RFC 3720, B.4
        assert crc32c_by_tables(data) == value == checksum()(data)
    long = bytes(i * 7 & 255 for i in range(5000))
    for size in (1, 2, 3, 4, 5, 1023, 1024, 1025, 1027, 2048, 5000):
        assert crc32c_by_tables(long[:size]) == checksum()(long[:size])
    assert masked(0) == 0xA282EAD8


def test_without_a_library_for_checksums_the_files_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(tmp_path / "a", [{"a": 1.5}]).read_bytes()
    monkeypatch.setattr(crc32c_module, "_choose", lambda: crc32c_by_tables)
    for cache in (checksum, _head):
        cache.cache_clear()
    try:
        assert checksum() is crc32c_by_tables
        assert written(tmp_path / "b", [{"a": 1.5}]).read_bytes() == expected
    finally:
        for cache in (checksum, _head):
            cache.cache_clear()


def test_a_template_packs_what_differs() -> None:
    packed = ScalarsTemplate(["a", "bb"]).pack([1.0, np.float64(2.0)])
    assert packed == b"\x0a\x08\x0a\x01a\x15" + struct.pack("<f", 1) + b"\x0a\x09\x0a\x02bb\x15" + struct.pack("<f", 2)
