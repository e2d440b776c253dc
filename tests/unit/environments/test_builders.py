"""Which builder takes a field of a runtime_env, and the builders that come with the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.conformance.environment import EnvironmentConformance
from kernel.defaults.plugin import CONFORMANCE, kernel_environments
from kernel.environments.builders import BUILT_IN, EnvironmentBuilders, unknown_field
from kernel.environments.modules import PythonModules
from kernel.environments.variables import EnvironmentVariables
from kernel.environments.working_directory import WorkingDirectory
from kernel_spec.errors import RuntimeEnvError

FLAGS: Any = CONFORMANCE["environment"]


class TestEnvironmentVariables(EnvironmentConformance):
    make_builder = staticmethod(EnvironmentVariables)
    values, wrong_values = FLAGS["values"], FLAGS["wrong_values"]


class TestWorkingDirectory(EnvironmentConformance):
    make_builder = staticmethod(WorkingDirectory)
    values, wrong_values = FLAGS["values"], FLAGS["wrong_values"]


class TestPythonModules(EnvironmentConformance):
    make_builder = staticmethod(PythonModules)
    values, wrong_values = FLAGS["values"], FLAGS["wrong_values"]


def no_plugins() -> None:
    raise AssertionError("no plugin is to be looked for")


def test_the_fields_of_the_kernel_need_no_plugins() -> None:
    builders = EnvironmentBuilders(no_plugins)
    for field in BUILT_IN:
        assert builders.of(field).field == field
        assert builders.of(field) is builders.of(field)
        assert builders.label(field) == f"the environment {field!r}"


def test_the_built_in_plugin_offers_the_same() -> None:
    assert {field: type(make()) for field, make in kernel_environments().items()} == BUILT_IN


def test_an_unknown_field_is_told_the_nearest_or_all() -> None:
    known = "env_vars, working_dir, py_modules, excludes, inherit"
    assert unknown_field("working_directory", ()) == (
        "runtime_env has no field 'working_directory'; did you mean 'working_dir'?"
    )
    assert unknown_field("nonsense", ["env_vars", "pip"]) == f"runtime_env has no field 'nonsense'; it has {known}, pip"


def test_a_field_whose_plugin_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.installing.install_command", lambda extra: f"pip install {extra}")
    assert unknown_field("pip", (), "on this node") == (
        "runtime_env has no field 'pip'; it has env_vars, working_dir, py_modules, excludes, inherit; "
        "to have it on this node: pip install environment_pip"
    )


@pytest.mark.parametrize("field", ["container", "image_uri"])
def test_a_field_that_looks_like_another_says_how_to_get_it_too(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.installing.install_command", lambda extra: f"pip install {extra}")
    assert unknown_field(field, ("conda",)).endswith("; to have it here: pip install environment_container")


def test_a_session_of_one_process_has_no_fields_of_plugins() -> None:
    for field in ("pip", "container", "image_uri"):
        with pytest.raises(
            RuntimeEnvError, match=f"no field '{field}' in a session of one process; .* without local_mode"
        ):
            EnvironmentBuilders(lambda: None).of(field)
    with pytest.raises(RuntimeEnvError, match="no field 'pi_modules'; did you mean 'py_modules'"):
        EnvironmentBuilders(lambda: None).of("pi_modules")
