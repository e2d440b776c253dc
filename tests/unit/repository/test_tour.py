"""Which files the tour reads: the same ones every time, and no more than a slow machine takes well."""

from __future__ import annotations

import runpy
import sysconfig
from pathlib import Path

import pytest

TOUR = Path(__file__).resolve().parents[3] / "examples" / "tour.py"


def test_the_tour_reads_the_library_first_and_its_tests_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    tour = runpy.run_path(str(TOUR))
    for name in ("zipfile.py", "test/test_a.py", "json/test/b.py", "test/test_z.py", "site-packages/c.py", "json/d.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as data:
            data.truncate(tour["SOURCE_BYTES"] // 4)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    root, chunks = tour["library_files"]()
    read = {str(Path(path).relative_to(root)) for chunk in chunks for path in chunk}
    assert read == {"zipfile.py", "json/d.py", "json/test/b.py", "test/test_a.py"}
    assert tour["library_files"]() == (root, chunks)


@pytest.mark.parametrize(
    ("speed_up", "cpus", "load", "said"),
    [
        (1.75, 2, 5.0, ""),
        (1.4, 2, 3.0, "other programs want the 2 CPUs, too (load average 3.0 before this began)"),
        (1.4, 2, 0.1, "one actor merges what all tasks find"),
        (9.0, 64, 0.1, "there are 24 chunks, too few for 64 CPUs"),
    ],
)
def test_the_tour_says_what_limits_it(
    monkeypatch: pytest.MonkeyPatch, speed_up: float, cpus: float, load: float, said: str
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    limit = runpy.run_path(str(TOUR))["what_limits"](speed_up, cpus, load)
    assert limit.startswith(said) and bool(limit) == bool(said)
