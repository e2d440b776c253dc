"""The dicts that older programs import, copy and change, and how they are merged."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.config import defaults
from kernel_rllib.config.defaults import COMMON_CONFIG, merge_dicts, merge_trainer_configs, with_base_config
from kernel_rllib.errors import UnknownSettingError


def test_the_common_dict_is_that_of_0_8_5() -> None:
    assert COMMON_CONFIG["num_workers"] == 2 and COMMON_CONFIG["model"] == defaults.model_defaults("0.8.5")
    assert defaults.model_defaults()["head_fcnet_hiddens"] == []


def test_a_trainer_of_ones_own_adds_its_defaults() -> None:
    mine = defaults.with_common_config({"lr": 1.0, "rollouts_per_iteration": 10, "model": {"dim": 42}})
    assert (mine["lr"], mine["rollouts_per_iteration"], mine["model"]["dim"]) == (1.0, 10, 42)
    assert mine["model"]["fcnet_hiddens"] == [256, 256] and mine.keys() > COMMON_CONFIG.keys()
    other = with_base_config(mine, {"model": {"fcnet_hiddens": [8]}})
    assert (other["model"]["dim"], other["model"]["fcnet_hiddens"]) == (42, [8])
    other["model"]["fcnet_hiddens"].append(1)
    assert COMMON_CONFIG["lr"] == 0.0001 and COMMON_CONFIG["model"]["fcnet_hiddens"] == [256, 256]


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}, {"a": {"b": 3, "c": 2}}),
        ({"a": 1}, {"b": {"c": 1}}, {"a": 1, "b": {"c": 1}}),
        ({"a": {"type": "T", "x": 1}}, {"a": {"type": "U", "y": 1}}, {"a": {"type": "U", "y": 1}}),
        ({"a": {"type": "T", "x": 1}}, {"a": {"type": "T", "y": 1}}, {"a": {"type": "T", "x": 1, "y": 1}}),
        ({"a": {"b": 1}}, {"a": 3}, {"a": 3}),
        ({"a": 3}, {"a": {"b": 1}}, {"a": {"b": 1}}),
    ],
)
def test_dicts_are_merged(one: Any, other: Any, merged: Any) -> None:
    assert merge_dicts(one, other) == merged


def test_what_is_merged_is_ones_own() -> None:
    given = {"a": {"sizes": [1]}, "list": [1]}
    made = merge_dicts({}, given)
    made["a"]["sizes"].append(2)
    made["list"].append(2)
    assert given == {"a": {"sizes": [1]}, "list": [1]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_worker": 1}, "there is no setting 'num_worker'; did you mean 'num_workers'?"),
        ({"limits": {"lowr": 1}}, "there is no setting 'lowr'; did you mean 'lower'?"),
        ({"env_config": {"anything": 1}, "model": {"anything": {"deep": 1}}}, None),
    ],
)
def test_unknown_keys_are_refused_except_where_anything_may_be(given: Any, said: str | None) -> None:
    all_keys = {**COMMON_CONFIG, "limits": {"lower": 0}}
    if said is None:
        merge_trainer_configs(all_keys, given)
    else:
        with pytest.raises(UnknownSettingError) as raised:
            merge_trainer_configs(all_keys, given)
        assert str(raised.value) == said
    merge_trainer_configs(all_keys, given, allow_unknown=True)
