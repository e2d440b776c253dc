"""The distributions of this repository: where they are, their one version, how they depend on each other."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "spec" / "kernel_spec" / "version.py"

PROJECT_NAME = re.compile(r"^name\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)
REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?(.*)$")


def version() -> str:
    """Return the one version. Raises ValueError when the version file does not state it."""
    match = re.search(r"^__version__\s*=\s*[\"']([^\"']+)[\"']", VERSION_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{VERSION_FILE} has no line that sets __version__")
    return match[1]


def normalized(name: str) -> str:
    """Return a distribution name as indexes compare it: `kernel_spec` is `kernel-spec`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(root: Path = ROOT) -> dict[str, Path]:
    """Return every distribution of the workspace, normalized name to folder, dependencies first."""
    folders = [root / "spec", root, *sorted((root / "plugins").glob("*"))]
    found: dict[str, Path] = {}
    for folder in folders:
        project = folder / "pyproject.toml"
        if project.is_file() and (match := PROJECT_NAME.search(project.read_text(encoding="utf-8"))):
            found[normalized(match[1])] = folder
    return found


def resolved(requirement: str, siblings: dict[str, Path]) -> str:
    """Return `requirement`, turned as `workspace_metadata.py` says when it names a sibling by its bare name."""
    match = REQUIREMENT.match(requirement)
    if match is None or normalized(match[1]) not in siblings:
        return requirement
    name, extras, rest = match[1], match[2] or "", match[3].strip()
    if rest and not rest.startswith(";"):
        raise ValueError(f"{requirement!r}: write siblings by their bare name, all of them have one version")
    if os.environ.get("KERNEL_BUILD_RELEASE") == "1":
        return f"{name}{extras}=={version()}{rest}"
    if os.environ.get("KERNEL_BUILD_LINKED") == "1":
        return f"{name}{extras}{rest}"
    # A marker after a URL needs a space before its semicolon.
    return f"{name}{extras} @ {siblings[normalized(name)].as_uri()}{' ' + rest if rest else ''}"


def plugin_extras(siblings: dict[str, Path], root: Path = ROOT) -> dict[str, list[str]]:
    """Return one extra for each plugin, named for its folder (`store_plasma`)."""
    return {folder.name: [name] for name, folder in siblings.items() if folder.parent == root / "plugins"}
