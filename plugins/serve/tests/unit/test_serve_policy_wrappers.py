"""Names of a policy's context, wrappers of other distributions around policies, and the nearest of Serve's names."""

from __future__ import annotations

import copy
import importlib.metadata
import pickle
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import kernel_serve
import pytest
from kernel_serve import installed as installed_parts
from kernel_serve.autoscaling import AutoscalingContext, load_policy, policy_wrappers
from kernel_serve.autoscaling.policy import default_policy
from kernel_serve.autoscaling.policy_wrappers import GROUP, Policy
from kernel_serve.settings import AutoscalingConfig

CONTEXT = AutoscalingContext(AutoscalingConfig(), now=5.0, current_target=3, ready=2, queued=4.0, ongoing=6.0)


def doubled(policy: Policy) -> Policy:
    return lambda context: 2 * policy(context)


def one_more(policy: Policy) -> Policy:
    return lambda context: policy(context) + 1


def ready(context: AutoscalingContext, more: int = 0) -> int:
    return context.ready + more


class Ready:
    """Wants as many as are ready."""

    def __init__(self, more: int) -> None:
        self.more = more

    def __call__(self, context: AutoscalingContext) -> int:
        return context.ready + self.more


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Have the wrappers of this module installed that `install(NAME, ...)` is called with, and no others."""

    def install(*names: str) -> None:
        points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in names]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == GROUP else [])
        monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.partition(":")[2]])
        policy_wrappers._installed.cache_clear()

    yield install
    policy_wrappers._installed.cache_clear()


def answer(policy: Any, **arguments: Any) -> Any:
    return load_policy(AutoscalingConfig(policy=policy, policy_arguments=arguments))(CONTEXT)


def test_without_any_a_policy_is_asked_with_serves_own_context(install: Callable[..., None]) -> None:
    install()
    assert answer(lambda context: context) is CONTEXT


def test_policies_of_all_kinds_are_wrapped_in_the_order_of_names(install: Callable[..., None]) -> None:
    install("one_more", "doubled", "one_more")
    expected = 2 * (CONTEXT.ready + 3) + 1
    assert answer(ready, more=3) == answer(Ready, more=3) == answer(f"{__name__}:ready", more=3) == expected


def test_serves_own_policy_is_not_wrapped(install: Callable[..., None]) -> None:
    install("doubled")
    assert load_policy(AutoscalingConfig()) is default_policy


def test_one_that_can_not_be_loaded_is_left_out_and_said(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    log = SimpleNamespace(warning=lambda text, **more: said.append((text, more)))
    monkeypatch.setattr(installed_parts, "_log", log)
    install("missing", "doubled")
    assert answer(ready) == answer(ready) == 4
    ((text, more),) = said
    assert text == (
        "wrappers of autoscaling policies are left out: the entry point 'missing' can't be loaded; reinstall its "
        "distribution, or uninstall it"
    )
    assert more == {"entry_point": f"{__name__}:missing", "error": "KeyError('missing')"}


@pytest.mark.parametrize(
    "name", ["current_num_replicas", "total_num_requests", "policy_state", "current_time", "config", "reqests"]
)
def test_a_name_that_the_context_does_not_have_is_answered_with_those_that_it_has(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(CONTEXT, name)
    assert str(caught.value) == (
        f"AutoscalingContext has no attribute {name!r}; a policy's context has current_target, idle_s, "
        "max_replicas, metrics, min_replicas, now, ongoing, ongoing_now, queued, queued_now, ready, replicas, "
        "requests, settings, state"
    )


def test_a_context_can_be_copied_and_pickled() -> None:
    assert copy.deepcopy(CONTEXT) == pickle.loads(pickle.dumps(CONTEXT)) == CONTEXT


def test_the_nearest_name_is_said() -> None:
    with pytest.raises(AttributeError, match="'kernel_serve' has no attribute 'deploymnt'; did you mean 'deployment'"):
        kernel_serve.deploymnt  # noqa: B018
