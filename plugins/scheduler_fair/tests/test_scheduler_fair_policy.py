"""The plugin's hooks, and what its options mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggy
import pytest
from kernel_scheduler_fair import plugin
from kernel_scheduler_fair.policy import AccountPolicy, Policy
from kernel_scheduler_fair.scheduler import FairScheduler

from kernel_spec import hooks
from kernel_spec.errors import OptionError
from kernel_spec.version import CONTRACTS


def policy_of(**options: Any) -> Policy:
    return plugin.make_scheduler(**options).accounts.policy


def test_offers_the_scheduler_by_name() -> None:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(plugin)
    manager.check_pending()
    assert manager.hook.kernel_contracts() == [{"scheduler": CONTRACTS["scheduler"]}]
    assert manager.hook.kernel_schedulers() == [{"fair": plugin.make_scheduler}]
    assert isinstance(plugin.make_scheduler(), FairScheduler)


def test_without_a_word_all_are_equal() -> None:
    assert policy_of() == Policy()


def test_options_say_who_is_entitled_to_what() -> None:
    accounts = {"research": {"weight": 3, "quota": {"CPU": 64, "GPU": 8}}, "guests": {"quota": {"GPU": 0}}}
    policy = policy_of(accounts=accounts, default_weight=2, default_quota={"GPU": 1}, preempt_seconds=math.inf)
    assert policy.of("research") == AccountPolicy(3.0, {"CPU": 640_000, "GPU": 80_000})
    assert policy.of("guests") == AccountPolicy(1.0, {"GPU": 0})
    assert policy.of("anybody") == AccountPolicy(2.0, {"GPU": 10_000})
    assert (policy.reclaim_seconds, policy.preempt_seconds, policy.ageing_seconds) == (0.1, math.inf, 300.0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"accounts": {"a": 3}}, r"accounts\.a must be a table with weight, quota or both, not 3"),
        ({"accounts": {"a": {"share": 3}}}, r"accounts\.a must be a table with weight, quota or both, not"),
        ({"accounts": {"a": {"weight": 0}}}, r"accounts\.a: weight must be above zero; to keep somebody out, set"),
        ({"accounts": {"a": {"weight": "x"}}}, r"accounts\.a: weight must be a number, zero or more, not 'x'"),
        ({"accounts": {"a": {"quota": 3}}}, r"accounts\.a: quota must be a table of names and quantities, not 3"),
        ({"default_quota": {"CPU": -1}}, "default: quota of CPU must be a number, zero or more, not -1"),
        ({"preempt_seconds": -1.0}, "preempt_seconds must be a number, zero or more, not -1"),
        ({"ageing_seconds": math.nan}, "ageing_seconds must be a number, zero or more, not nan"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(options: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=f"the options of the scheduler 'fair': {problem}"):
        plugin.make_scheduler(**options)


def test_the_readme_names_every_option() -> None:
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    options = plugin.make_scheduler.__kwdefaults__
    shown = readme.split("```toml\n")[1].split("```")[0]
    assert [name for name in options if f"{name} = " not in shown and f".{name}." not in shown] == []
