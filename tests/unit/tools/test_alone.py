"""What `tools/alone.py` installs for the tests of a distribution, and what it notices of one that is broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import alone
import pytest
from workspace_projects import distributions

BROKEN = {
    "__init__": "",
    "__main__": "raise SystemExit('a program')",
    "good": "import json",
    "optional": "import a_library_that_nobody_has",
    "sibling": "import kernel_that_nobody_has.part",
    "library": "import kernel.dashboard",
    "wrong": "1 / 0",
    "plugin": "print('said while it is imported')",
}


@pytest.mark.parametrize(
    ("line", "siblings", "others"),
    [
        ("import kernel_spec.ids", {"kernel-spec"}, set()),
        ("from kernel.conformance.scheduler import SchedulerConformance", {"kernel-conformance"}, set()),
        ("from kernel import tune", {"kernel-tune"}, set()),
        ("from kernel.control_plane.client import ControlPlane", {"kernel-control-grpc"}, set()),
        ("from kernel.defaults.scheduler import LocalScheduler", {"kernel"}, set()),
        ("import kernel\nwith kernel.init(num_cpus=1):\n    pass", {"kernel", *alone.FOR_A_SESSION}, set()),
        ("def test():\n    import numpy as np", set(), {"numpy>=1.24"}),
        ("import boto3", set(), {"boto3<1.43.118"}),
        ("import mutants, os.path", set(), set()),
    ],
)
def test_what_tests_import_is_installed_for_them(
    tmp_path: Path, line: str, siblings: set[str], others: set[str]
) -> None:
    (tmp_path / "test_it.py").write_text(line + "\n")
    assert alone.needed_by([tmp_path]) == (siblings, others)


def test_every_distribution_has_tests() -> None:
    for name, folder in distributions().items():
        paths = alone.TESTS_OF_THE_KERNEL if name == "kernel" else ["tests"]
        assert all(list((folder / path).rglob("test_*.py")) for path in paths), name
    assert distributions().keys() >= alone.LONG | set(alone.FOR_A_SESSION)


def test_modules_that_can_not_be_imported_are_told_from_those_that_need_more(tmp_path: Path) -> None:
    package, info = tmp_path / "kernel_broken", tmp_path / "kernel_broken-1.0.dist-info"
    for folder in (package, package / "on_a_path", info):
        folder.mkdir()
    for name, text in BROKEN.items():
        (package / f"{name}.py").write_text(text + "\n")
    (package / "on_a_path" / "no_module.py").write_text("1 / 0\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernel-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kernel.plugins]\nbroken = kernel_broken.plugin\n[x]\ny = kernel_broken:z\n"
    )
    program = tmp_path / "program.py"
    program.write_text(alone.IMPORT_ALL)
    done = subprocess.run(
        [sys.executable, program, "kernel_broken", "kernel-broken"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    imported, missing, broken = json.loads(done.stdout)
    assert imported == 3
    assert missing.pop("kernel_broken.library").startswith("the library kernel.dashboard is not installed")
    assert missing == {"kernel_broken.optional": "No module named 'a_library_that_nobody_has'"}
    assert broken == {
        "kernel_broken.sibling": "No module named 'kernel_that_nobody_has'",
        "kernel_broken.wrong": "ZeroDivisionError: division by zero",
        "x:y": "AttributeError: module 'kernel_broken' has no attribute 'z'",
    }
