"""Settings: as objects or as dicts of their fields; what is no field is refused with the nearest that is one."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import dataclass, replace
from typing import Any

import pytest

from kernel_runs import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, SyncConfig
from kernel_runs.arguments import ArgumentError
from kernel_runs.settings.fields import made, refuses_unknown


def test_dicts_of_fields_become_settings() -> None:
    config = RunConfig(
        name="a", failure_config={"max_failures": 2}, checkpoint_config={"num_to_keep": 3}, sync_config=None
    )
    assert config.failure_config == FailureConfig(2) and config.checkpoint_config == CheckpointConfig(num_to_keep=3)
    assert config.sync_config == SyncConfig() and config.sync_config.syncer == "auto"
    assert made(RunConfig, {"name": "a"}) == RunConfig("a") and made(RunConfig, None) == RunConfig()
    assert made(RunConfig, config) is config


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (
            RunConfig,
            {"storag_path": "/a"},
            r"^RunConfig .* 'storag_path'. Did you mean 'storage_path'\?",
        ),
        (FailureConfig, {"max_fails": 1}, r"^FailureConfig has no argument 'max_fails'. Did you mean 'max_failures'\?"),
        (CheckpointConfig, {"keep": 1}, r"^CheckpointConfig has no argument 'keep'.*$"),
        (
            SyncConfig,
            {"nothing_like_it": 1},
            r"^SyncConfig has no argument 'nothing_like_it'. Its arguments are uplo",
        ),
        (
            ScalingConfig,
            {"num_worker": 1},
            r"^ScalingConfig has no argument 'num_worker'. Did you mean 'num_workers'\?",
        ),
        (RunConfig, {"failure_config": {"max_failure": 1}}, "Did you mean 'max_failures'"),
    ],
)
def test_what_is_no_field_is_refused_with_the_nearest(kind: Any, given: dict[str, Any], message: str) -> None:
    for use in (lambda: made(kind, given), lambda: kind(**given)):
        with pytest.raises(ArgumentError, match=message):
            use()
    with pytest.raises(TypeError):  # as Python itself would
        kind(**given)


@pytest.mark.parametrize("given", ["name", 5, [], RunConfig])
def test_what_is_no_settings_at_all_is_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"is not a RunConfig: give one, or a dict of its fields"):
        made(RunConfig, given)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (FailureConfig, {"fail_fast": "never"}, "^fail_fast is 'never': it is True, False or 'raise'"),
        (FailureConfig, {"fail_fast": True, "max_failures": 3}, "fail_fast=True ends all .* max_failures=3 lets"),
        (CheckpointConfig, {"num_to_keep": 0}, "^num_to_keep is 0: it is at least 1, or None to keep all"),
        (CheckpointConfig, {"checkpoint_score_order": "best"}, "score_order is 'best': it is 'max' or 'min'"),
    ],
)
def test_values_that_can_not_be_are_named(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**given)


def test_without_a_word_nothing_special_is_done() -> None:
    config = vars(RunConfig())
    assert {name for name, value in config.items() if value is None} == {
        "name", "storage_path", "callbacks", "progress_reporter", "stop", "verbose", "local_dir",
    }  # fmt: skip
    assert config["log_to_file"] is False is config["resume"]
    assert vars(config["failure_config"]) == {"max_failures": 0, "fail_fast": False}
    assert vars(config["checkpoint_config"]) == {
        "num_to_keep": None, "checkpoint_score_attribute": None, "checkpoint_score_order": "max",
        "checkpoint_frequency": 0, "checkpoint_at_end": None,
    }  # fmt: skip
    assert vars(config["sync_config"]) == {
        "upload_dir": None, "syncer": "auto", "sync_period": 300.0, "sync_on_checkpoint": True, "sync_artifacts": True,
        "sync_to_driver": None,
    }  # fmt: skip
    assert CheckpointConfig(1, "loss", "min").checkpoint_score_order == "min"


def test_they_are_dataclasses_all_the_same() -> None:
    config = RunConfig("a", "/b", FailureConfig(1))
    assert replace(config, name="c").storage_path == "/b" and "storage_path" in inspect.signature(RunConfig).parameters
    assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)
    assert FailureConfig(fail_fast="raise").fail_fast == "raise"


def test_a_class_of_ones_own_may_refuse_what_is_unknown() -> None:
    @refuses_unknown
    @dataclass
    class Mine:
        wanted: int = 0

    assert Mine(wanted=3).wanted == 3 and Mine(4).wanted == 4
    with pytest.raises(ArgumentError, match=r"^Mine has no argument 'want'. Did you mean 'wanted'\?$"):
        Mine(want=1)  # type: ignore[call-arg]
    with pytest.raises(ArgumentError, match=r"^Mine has no argument 'max_actor_restarts'. Its arguments are wanted\.$"):
        Mine(max_actor_restarts=1)  # type: ignore[call-arg]
