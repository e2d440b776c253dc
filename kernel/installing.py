"""The command that installs another part of kernel: from the origin of the installed kernel, never from an index.

On the public index `kernel` is an unrelated project: `pip install "kernel[tune]"` would replace this one by it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

_ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def install_command(extra: str) -> str:
    """Return the command that installs an extra of kernel, such as `tune`; "" when there is no such extra.

    It names the folder, wheel or repository that pip recorded when it installed kernel (PEP 610). Without a record the
    wheels came from a folder or a private index, which the reader has to name.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # costs more than `import kernel` may take

    try:
        kernel = distribution("kernel")
    except PackageNotFoundError:  # imported from a clone that is not installed
        return _pip(f"{_ROOT}[{extra}]")
    extras = {name.replace("_", "-") for name in kernel.metadata.get_all("Provides-Extra") or ()}
    if extra.replace("_", "-") not in extras:  # of store_plasma and store-plasma metadata may have either
        return ""
    return command_for(extra, json.loads(kernel.read_text("direct_url.json") or "{}"), kernel.version)


def command_for(extra: str, origin: Mapping[str, Any], version: str) -> str:
    """Return the command that installs an extra of a kernel of that version; `origin` is its `direct_url.json`."""
    from urllib.parse import unquote, urlsplit  # which nothing else needs where a session starts

    address: str = origin.get("url", "")
    path = unquote(urlsplit(address).path)
    if "dir_info" in origin:
        return _pip(f"{path}[{extra}]", "--editable" if origin["dir_info"].get("editable") else "")
    if "vcs_info" in origin:
        return _pip(f"kernel[{extra}] @ {origin['vcs_info']['vcs']}+{address}@{origin['vcs_info']['commit_id']}")
    if address.startswith("file:"):
        return _pip(f"{path}[{extra}]", f"--find-links {os.path.dirname(path)}")
    if address:
        return _pip(f"kernel[{extra}] @ {address}")
    return _pip(f"kernel[{extra}]=={version}", "--find-links FOLDER") + " (FOLDER is where the wheels of kernel are)"


def _pip(requirement: str, options: str = "") -> str:
    return f'pip install {options}{" " * bool(options)}"{requirement}"'
