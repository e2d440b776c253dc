"""Under which names the suites are found: their own, the mounted one, and that in `kernel.testing`."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
from kernel_conformance.cli.plugin_check import SUITES

from kernel.mounts import MOVED


@pytest.mark.parametrize("kind", SUITES)
def test_the_command_line_knows_the_suite_and_what_makes_the_thing_tested(kind: str) -> None:
    name, maker = SUITES[kind]
    suite = getattr(importlib.import_module(f"kernel_conformance.{kind}"), name)
    assert next(one for one in (*suite.__annotations__, *dir(suite)) if one == kind or one.startswith("make_")) == maker


@pytest.mark.parametrize("name", MOVED)
def test_a_suite_is_one_module_under_all_its_names(name: str) -> None:
    module = importlib.import_module(MOVED[name])
    assert importlib.import_module(name) is module
    assert importlib.import_module(MOVED[name].replace("kernel_conformance", "kernel.conformance")) is module


@pytest.mark.parametrize("kind", SUITES)
def test_suites_need_no_pytest(kind: str) -> None:
    program = f"import sys; sys.modules['pytest'] = None; import kernel_conformance.{kind}"
    subprocess.run([sys.executable, "-c", program], check=True)
