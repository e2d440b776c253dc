"""Which command installs another part of kernel: never one that finds somebody else's `kernel` on an index."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from kernel.installing import command_for, install_command

CLONE = {"url": "file:///home/me/my%20kernel", "dir_info": {}}
EDITABLE = {"url": "file:///home/me/kernel", "dir_info": {"editable": True}}
WHEEL = {"url": "file:///srv/wheels/kernel-1.2-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://example.com/kernel.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}
PAGE = {"url": "https://example.com/kernel-1.2-py3-none-any.whl", "archive_info": {}}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (CLONE, 'pip install "/home/me/my kernel[tune]"'),
        (EDITABLE, 'pip install --editable "/home/me/kernel[tune]"'),
        (WHEEL, 'pip install --find-links /srv/wheels "/srv/wheels/kernel-1.2-py3-none-any.whl[tune]"'),
        (GIT, 'pip install "kernel[tune] @ git+https://example.com/kernel.git@ab12"'),
        (PAGE, 'pip install "kernel[tune] @ https://example.com/kernel-1.2-py3-none-any.whl"'),
        ({}, 'pip install --find-links FOLDER "kernel[tune]==1.2" (FOLDER is where the wheels of kernel are)'),
    ],
    ids=["clone", "editable", "wheel", "repository", "page", "folder of wheels"],
)
def test_the_command_names_where_kernel_came_from(origin: dict[str, Any], command: str) -> None:
    assert command_for("tune", origin, "1.2") == command


class Installed:
    """A distribution `kernel` as pip might have left it."""

    version = "1.2"

    def __init__(self, *extras: str) -> None:
        self._extras = list(extras)

    @property
    def metadata(self) -> Any:
        return self

    def get_all(self, header: str) -> list[str] | None:
        return self._extras if header == "Provides-Extra" else None

    def read_text(self, name: str) -> str | None:
        return json.dumps(CLONE) if name == "direct_url.json" else None


def test_a_part_that_there_is_not_has_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed("tune", "store-plasma"))
    assert install_command("tune") == command_for("tune", CLONE, "1.2")
    assert install_command("store_plasma") == command_for("store_plasma", CLONE, "1.2")
    assert install_command("rllib") == ""


def test_a_clone_that_nobody_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("tune") == f'pip install "{Path(__file__).parents[2]}[tune]"'
