"""Names that other distributions add to configuration files, by entry points."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_serve import installed as installed_parts
from kernel_serve.config.reading import read, read_values
from kernel_serve.config.setting_names import GROUP, OWN, SettingNames, combined, known_names
from kernel_serve.errors import DeploymentError


def doubled(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {("max_replicas" if name == "half" else name): 2 * value for name, value in given.items()}


OTHER = SettingNames(
    aliases={"deployment": {"replicas": "num_replicas"}},
    refused={"deployment": {"colour": "replicas have none"}},
    autoscaling_names=("half",),
    autoscaling=doubled,
)
TEXT = "applications: [{import_path: 'm:app', deployments: [{name: D, %s}]}]"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Have the names of this module installed that `install(NAME, ...)` is called with."""

    def install(*names: str) -> None:
        points = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in names]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == GROUP else [])
        monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.value.partition(":")[2]])
        known_names.cache_clear()

    yield install
    known_names.cache_clear()


def options_of(text: str) -> Mapping[str, Any]:
    (application,) = read(TEXT % text, "serve.yaml").applications
    return application.deployments[0].options


def test_without_any_a_file_has_serves_own_names(installed: Any) -> None:
    installed()
    with pytest.raises(DeploymentError, match="replicas: there is no such setting; did you mean 'num_replicas'"):
        options_of("replicas: 2")


def test_names_of_a_distribution_are_read_in_files(installed: Any) -> None:
    installed("OTHER")
    assert options_of("replicas: 2") == {"num_replicas": 2}
    assert options_of("autoscaling_config: {half: 3}") == {"autoscaling_config": {"max_replicas": 6}}
    with pytest.raises(DeploymentError, match=r"serve.yaml:1: applications\[0\].*colour: replicas have none"):
        options_of("colour: red")
    with pytest.raises(DeploymentError, match="init_args: arguments are given in the code"):
        options_of("init_args: [1]")


def test_a_program_may_say_which_names_there_are(installed: Any) -> None:
    installed()
    given = {"applications": [{"import_path": "m:app", "deployments": [{"name": "D", "replicas": 2}]}]}
    (application,) = read_values(given, "values", combined([OWN, OTHER])).applications
    assert application.deployments[0].options == {"num_replicas": 2}


def test_names_that_can_not_be_loaded_are_left_out_and_said(installed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    log = SimpleNamespace(warning=lambda text, **more: said.append((text, more)))
    monkeypatch.setattr(installed_parts, "_log", log)
    installed("MISSING", "OTHER")
    assert options_of("replicas: 2") == {"num_replicas": 2}
    ((text, more),) = said
    assert text == (
        "other names of settings are not known: the entry point 'MISSING' can't be loaded; reinstall its distribution, "
        "or uninstall it"
    )
    assert more == {"entry_point": f"{__name__}:MISSING", "error": "KeyError('MISSING')"}
