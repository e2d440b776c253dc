"""Installs the programs that tests start, such as Redis, where this machine lets us. Says so in one line elsewhere."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from workspace_projects import ROOT

LIMIT_SECONDS = 600
"""What all of apt-get may take, an index that answers slowly included."""


def install_programs() -> None:
    """Install what is missing of the table in `kernel_testing/programs.py`. Where it can't, say what to do; go on."""
    programs: dict[str, Any] = runpy.run_path(str(ROOT / "plugins" / "testing" / "kernel_testing" / "programs.py"))
    missing = programs["missing"]()
    if not missing:
        return
    packages = [programs["PACKAGES"][name] for name in missing]
    if problem := _apt_get(packages):
        print(f"{programs['advice'](missing)} ({problem}). Tests that need them are skipped.", file=sys.stderr)


def _apt_get(packages: Sequence[str]) -> str:
    """Install packages, and return nothing, or why they could not be. The lists are fetched where they are too old."""
    command, problem = _command()
    if problem:
        return problem
    install = [*command, "install", "-qq", "-y", "--no-install-recommends", *packages]
    try:
        done = _run(install)
        if done.returncode and not _run([*command, "update", "-qq"]).returncode:
            done = _run(install)
    except subprocess.TimeoutExpired as error:
        return f"`{' '.join(error.cmd)}` did not end within {LIMIT_SECONDS} s"
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"`{' '.join(install)}` failed: {said[-1] if said else done.returncode}" if done.returncode else ""


def _command() -> tuple[list[str], str]:
    """Return what runs apt-get with the rights it needs, or why nothing does."""
    if shutil.which("apt-get") is None:
        return [], "there is no apt-get"
    if os.geteuid() == 0:
        return ["apt-get"], ""
    if shutil.which("sudo") is None:
        return [], "that needs root, and there is no sudo"
    if _run(["sudo", "-n", "true"]).returncode:
        return [], "that needs root, and sudo asks for a password"
    return ["sudo", "-n", "DEBIAN_FRONTEND=noninteractive", "apt-get"], ""


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
