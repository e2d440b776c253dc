"""What is installed is what `importlib.metadata` finds, only sooner."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from kernel.entry_points import entry_points


def install(folder: Path, name: str, text: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(text)


def asked(group: str) -> list[tuple[str, str]]:
    return sorted({(point.name, point.value) for point in metadata.entry_points(group=group)})


def test_here_is_what_importlib_finds() -> None:
    groups = metadata.entry_points().groups
    assert {"console_scripts", "kernel.plugins", "pytest11"} <= groups
    assert {group: entry_points(group) for group in groups} == {group: asked(group) for group in groups}


def test_of_two_distributions_of_one_name_the_first_on_the_path_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "near", "Toy_Box.a", "[toys]\ncar = near:car\n")
    install(tmp_path / "far", "toy_box_a", "[toys]\ncar = far:car\nball = far:ball\n")
    install(tmp_path / "far", "other", "[toys]\nball = other:ball\n")
    monkeypatch.syspath_prepend(tmp_path / "far")
    monkeypatch.syspath_prepend(tmp_path / "near")
    assert entry_points("toys") == asked("toys") == [("ball", "other:ball"), ("car", "near:car")]


def test_every_way_to_write_them_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path,
        "toys",
        "# car = no\n[toy]\ncar=a\n\n[toys]\n  car  =  b.c:d.e [extra]\n#ball = no\ndoll=f=g\n[other]\nx=y\n",
    )
    (tmp_path / "empty-1.0.dist-info").mkdir()
    (tmp_path / "old-1.0.egg-info").write_text("Name: old\n")
    monkeypatch.syspath_prepend(tmp_path / "missing")
    monkeypatch.syspath_prepend(tmp_path)
    assert ("car", "b.c:d.e [extra]") in entry_points("toys")
    assert entry_points("toys") == asked("toys")


def test_archives_and_importers_with_distributions_of_their_own_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "kept", "kept", "[toys]\ncar = kept\n")
    with zipfile.ZipFile(tmp_path / "toys.zip", "w") as archive:
        archive.writestr("zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.0\n")
        archive.writestr("zipped-1.0.dist-info/entry_points.txt", "[toys]\nball = zipped\n")
    with monkeypatch.context() as path:
        path.syspath_prepend(tmp_path / "toys.zip")
        assert entry_points("toys") == [("ball", "zipped")]

    class Importer:
        def find_spec(self, *given: object) -> None:
            return None

        def find_distributions(self, context: object) -> list[metadata.Distribution]:
            return [metadata.PathDistribution(tmp_path / "kept" / "kept-1.0.dist-info")]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Importer()])
    assert entry_points("toys") == [("car", "kept")]
