"""Mounted libraries: one module object under two names, found by entry points, explained when missing."""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel import mounts
from kernel.installing import install_command
from kernel_spec.hooks import LIBRARY_GROUP

SECONDS = 120.0
"""How long anything may take: the machine may be busy."""
FILES = {
    "__init__.py": "from kernel_toy.shapes import Circle\nVALUE = 7\n",
    "shapes.py": "class Circle:\n    pass\n",
    "deep/__init__.py": "",
    "deep/inner.py": "from kernel_toy.shapes import Circle\nfrom . import sibling\nLOADED = []\nLOADED.append(1)\n",
    "deep/sibling.py": "NAME = __name__\n",
    "deep/tool.py": "import sys\nfrom .sibling import NAME\nprint(__name__, NAME, sys.argv[1:])\n",
    "__main__.py": "print('main of', __package__)\n",
    "broken.py": "raise RuntimeError('broken on purpose')\n",
}


def distribution(folder: Path, name: str, entry_points: str) -> None:
    """Write the metadata of an installed distribution."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on sys.path with the distribution `kernel-toy`, which mounts `kernel_toy` as `kernel.toy`."""
    folder = tmp_path / "site"
    for name, text in FILES.items():
        path = folder / "kernel_toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    distribution(folder, "kernel-toy", "[kernel.libraries]\ntoy = kernel_toy\nghost = kernel_ghost_package\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(folder))
    finders, modules = list(sys.meta_path), set(sys.modules)
    mounted, installed = dict(mounts._mounted), set(mounts._installed)
    mounts.install()
    yield folder
    sys.meta_path[:] = finders
    mounts._mounted.clear()
    mounts._mounted.update(mounted)
    mounts._installed.intersection_update(installed)
    for name in set(sys.modules) - modules:
        if "toy" in name:
            del sys.modules[name]
    vars(sys.modules["kernel"]).pop("toy", None)


def fresh(site: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new process that has the library, after what `import kernel` does."""
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-c", f"import kernel.mounts; kernel.mounts.install()\n{code}", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def test_one_module_object_under_both_names(site: Path) -> None:
    alias, real = importlib.import_module("kernel.toy"), importlib.import_module("kernel_toy")
    assert alias is real
    assert sys.modules["kernel.toy"] is sys.modules["kernel_toy"]
    assert real.__name__ == "kernel_toy" and real.__spec__ is not None and real.__spec__.name == "kernel_toy"
    from kernel import toy  # type: ignore[attr-defined]

    assert toy is real


@pytest.mark.parametrize(
    "order", [("kernel.toy.deep.inner", "kernel_toy.deep.inner"), ("kernel_toy.deep.inner", "kernel.toy.deep.inner")]
)
def test_deep_imports_load_once_whichever_name_comes_first(site: Path, order: tuple[str, str]) -> None:
    first, second = (importlib.import_module(name) for name in order)
    assert first is second
    assert first.LOADED == [1]
    assert first.sibling.NAME == "kernel_toy.deep.sibling"
    assert first.__spec__.name == "kernel_toy.deep.inner" and first.__package__ == "kernel_toy.deep"


def test_class_identity_and_pickles_name_the_real_package(site: Path) -> None:
    from kernel.toy.deep import inner  # type: ignore[import-not-found]
    from kernel.toy.shapes import Circle  # type: ignore[import-not-found]

    assert inner.Circle is Circle is importlib.import_module("kernel_toy").Circle
    data = pickle.dumps(Circle())
    assert b"kernel_toy.shapes" in data and b"kernel.toy" not in data
    assert type(pickle.loads(data)) is Circle


def test_pickle_is_read_by_a_process_that_never_heard_of_the_alias(site: Path) -> None:
    from kernel.toy.shapes import Circle

    code = f"import pickle; print(type(pickle.loads(bytes.fromhex({pickle.dumps(Circle()).hex()!r}))).__module__)"
    result = fresh(site, code)
    assert result.stdout.strip() == "kernel_toy.shapes", result.stderr


def test_reload_works_on_the_real_module(site: Path) -> None:
    module = importlib.import_module("kernel.toy.shapes")
    assert importlib.reload(module) is module is sys.modules["kernel_toy.shapes"]


def test_run_as_a_program(site: Path) -> None:
    run = "import runpy, sys; sys.argv[0] = 'x'; runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
    tool = fresh(site, run.format("kernel.toy.deep.tool"), "one", "two")
    assert tool.stdout.strip() == "__main__ kernel_toy.deep.sibling ['one', 'two']", tool.stderr
    assert "Warning" not in tool.stderr
    package = fresh(site, run.format("kernel.toy"))
    assert package.stdout.strip() == "main of kernel.toy", package.stderr


def test_find_spec_does_not_run_the_module(site: Path) -> None:
    spec = importlib.util.find_spec("kernel.toy.broken")
    assert spec is not None and spec.origin == str(site / "kernel_toy" / "broken.py")
    assert importlib.util.find_spec("kernel.toy.absent") is None
    with pytest.raises(RuntimeError, match="broken on purpose"):
        importlib.import_module("kernel.toy.broken")
    assert "kernel.toy.broken" not in sys.modules


def test_missing_module_of_a_library(site: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"kernel\.toy\.absent"):
        importlib.import_module("kernel.toy.absent")


def test_many_threads_see_one_module(site: Path) -> None:
    names = ["kernel.toy.deep.inner", "kernel_toy.deep.inner"] * 8
    seen: list[object] = []
    threads = [threading.Thread(target=lambda name=name: seen.append(importlib.import_module(name))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=SECONDS)
    assert len(seen) == len(names) and len(set(map(id, seen))) == 1
    assert sys.modules["kernel_toy.deep.inner"].__spec__.name == "kernel_toy.deep.inner"  # type: ignore[union-attr]


def test_missing_known_library_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import kernel.mounts\nkernel.mounts.libraries = lambda: {}\n"
        "try:\n    %s\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    for statement, name, extra in (
        ("import kernel.tune", "tune", "tune"),
        ("from kernel import tune", "tune", "tune"),
        ("import kernel.tune.schedulers", "tune", "tune"),
        ("import kernel.control_plane.client", "control_plane", "control_grpc"),
    ):
        result = fresh(tmp_path, code % statement)
        said = f"the library kernel.{name} is not installed: {install_command(extra)}"
        assert result.stdout.strip() == said and f"[{extra}]" in said, (statement, result.stderr)


def test_attribute_access(site: Path) -> None:
    assert mounts.load("toy") is importlib.import_module("kernel_toy")
    with pytest.raises(AttributeError, match="module 'kernel' has no attribute 'no_such_thing'"):
        mounts.load("no_such_thing")


def test_attribute_of_missing_library_says_what_to_install(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "libraries", dict)
    monkeypatch.setattr(mounts, "_mounted", {})
    monkeypatch.setattr(mounts, "_missed", set())
    monkeypatch.delitem(sys.modules, "kernel.serve", raising=False)  # other tests of this process may use it
    with pytest.raises(
        AttributeError, match=re.escape(f"the library kernel.serve is not installed: {install_command('serve')}")
    ):
        mounts.load("serve")


def test_entry_point_without_its_package(site: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"kernel\.ghost is mounted on the package 'kernel_ghost_package'"):
        importlib.import_module("kernel.ghost")


def test_two_packages_under_one_name_are_refused(site: Path) -> None:
    distribution(site, "other-toy", "[kernel.libraries]\ntwice = kernel_toy\n")
    distribution(site, "third-toy", "[kernel.libraries]\ntwice = kernel_toy.deep\n")
    with pytest.raises(ImportError, match=r"mounted as kernel\.twice: kernel_toy, kernel_toy\.deep; uninstall"):
        importlib.import_module("kernel.twice")


def test_own_modules_win_over_libraries(site: Path) -> None:
    distribution(site, "greedy", "[kernel.libraries]\nmounts = kernel_toy\n")
    assert importlib.import_module("kernel.mounts") is mounts
    assert fresh(site, "print(kernel.mounts.__name__)").stdout.strip() == "kernel.mounts"


def test_nothing_is_scanned_before_an_import_misses(site: Path) -> None:
    result = fresh(
        site,
        "import sys, json, logging.handlers\n"
        "print('kernel.entry_points' in sys.modules, end=' ')\n"
        "print([type(f).__name__ for f in sys.meta_path if hasattr(f, 'find_spec')][-1])\n"
        "import kernel.toy\nprint('kernel.entry_points' in sys.modules, type(sys.meta_path[0]).__name__)\n",
    )
    assert result.stdout.splitlines() == ["False _TopFinder", "True _BelowFinder"], result.stderr


def test_what_a_library_is_made_of_is_a_librarys_too(site: Path) -> None:
    distribution(site, "kernel-floor", "[kernel.libraries]\nfloor = kernel_floor\n")
    assert not mounts.is_library("kernel_floor.part")
    importlib.import_module("kernel.toy")
    assert mounts.is_library("kernel_toy.deep") and mounts.is_library("kernel_floor.part")
    assert not mounts.is_library("kernel_other") and not mounts.is_library(None)


def test_installing_twice_adds_one_finder(site: Path) -> None:
    mounts.install()
    assert sum(isinstance(finder, mounts._TopFinder) for finder in sys.meta_path) == 1


def test_group_is_the_contracts() -> None:
    assert mounts.GROUP == LIBRARY_GROUP
