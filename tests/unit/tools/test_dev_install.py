"""What `tools/dev_install.py` does beside installing."""

from __future__ import annotations

from pathlib import Path

from dev_install import remove_remains


def test_folders_with_only_compiled_files_are_removed(tmp_path: Path) -> None:
    for name in ("moved/__pycache__/a.cpython-311.pyc", "moved/inner/__pycache__/b.pyc", "here/a.py", "here/x.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "a.py").touch()
    remove_remains(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.py", "a.py", "here", "x.pyc"]
