"""The library as a whole: what it exports, what it loads, and whom it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernel
import kernel_runs


def test_it_is_mounted_and_every_name_is_there() -> None:
    import kernel.runs

    assert kernel.runs is kernel_runs
    for name in kernel_runs.__all__:
        assert getattr(kernel_runs, name) is not None and name in dir(kernel_runs)
    with pytest.raises(AttributeError, match="module 'kernel_runs' has no attribute 'nothing'"):
        _ = kernel_runs.nothing


def loaded(program: str) -> set[str]:
    """Return the modules that a program has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_it_loads_what_is_asked_for() -> None:
    nothing = loaded("import kernel_runs")
    assert not [name for name in nothing if name.startswith("kernel_runs.")] and "kernel" not in nothing
    settings = loaded("from kernel_runs import RunConfig, ScalingConfig, FailureConfig")
    assert not settings & {"numpy", "fsspec", "cloudpickle", "difflib", "kernel_runs.session", "kernel_runs.loggers"}
    checkpoint = loaded("from kernel_runs import Checkpoint\nCheckpoint.from_dict({'a': 1}).to_dict()")
    assert not checkpoint & {"numpy", "fsspec", "cloudpickle", "zipfile", "kernel_runs.session"}
    classes = loaded("from kernel_runs import Trainable, Result, report")
    assert not classes & {"numpy", "fsspec", "pandas", "kernel_runs.loggers"}


def test_no_other_library_is_needed() -> None:
    program = "import kernel_runs; [getattr(kernel_runs, name) for name in kernel_runs.__all__]"
    others = {name for name in loaded(program) if name.startswith("kernel_")}
    assert {name.partition(".")[0] for name in others} == {"kernel_runs", "kernel_spec"}


def test_a_needed_library_that_is_missing_or_broken_is_named(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernel_runs.optional import needed

    assert needed("json.decoder", "Mine", "json").JSONDecoder is not None
    monkeypatch.setitem(sys.modules, "not_there", None)
    with pytest.raises(
        kernel_runs.OptionalDependencyError,
        match=r"Mine needs the library 'not_there', which is not installed. Run: pip install theirs",
    ):
        needed("not_there.part", "Mine", "theirs")
    with pytest.raises(ImportError, match="which fails to import .ModuleNotFoundError: No module named 'json.nothing'"):
        needed("json.nothing", "Mine", "json")
    assert issubclass(kernel_runs.RunError, kernel.exceptions.KernelError)
