"""Build a conda environment on a node, with py-rattler, which solves and installs without the program conda."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernel_environment_conda.description import TITLE, split
from kernel_spec.errors import RuntimeEnvError

LAST_LINES = 30
"""The number of the last lines of what pip wrote that an error shows."""


def install(prepared: Mapping[str, Any], prefix: str) -> None:
    """Install what was prepared below `prefix`. Raises RuntimeEnvError with the reason of the solver or of pip."""
    conda, pip = split(prepared)
    if pip and not any(_name(each) == "python" for each in conda):
        conda = [*conda, "python"]
    _install_conda(prepared["channels"], conda, prefix)
    if pip:
        _install_pip(pip, prefix)


def _install_conda(channels: Sequence[str], dependencies: Sequence[str], prefix: str) -> None:
    import rattler

    async def solved_and_installed() -> None:
        records = await rattler.solve(
            sources=channels,
            specs=dependencies,
            virtual_packages=rattler.VirtualPackage.detect(),
            constraints=[f"python {node_version()}.*"],
        )
        for record in records:
            print(f"conda: {record.name.normalized} {record.version} from {record.url}")
        await rattler.install(records, target_prefix=prefix, show_progress=False)

    try:
        asyncio.run(solved_and_installed())
    except Exception as error:  # rattler has about twenty kinds, with nothing in common
        raise RuntimeEnvError(
            f"{TITLE} can't be installed: {', '.join(dependencies)} from {', '.join(channels)}, for the node's Python "
            f"{node_version()}: {str(error).strip() or type(error).__name__}"
        ) from error


def _install_pip(requirements: Sequence[str], prefix: str) -> None:
    """Install by the node's pip, which runs in the environment's interpreter."""
    python = os.path.join(prefix, "bin", "python")
    listing = os.path.join(prefix, "conda-meta", "requirements.txt")
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in requirements)
    quiet = ("--disable-pip-version-check", "--no-input", "--no-color")
    command = [sys.executable, "-m", "pip", "--python", python, "install", *quiet, "-r", listing]
    surroundings = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=surroundings,
        check=False,
    )  # fmt: skip
    text = done.stdout.decode(errors="replace")
    print(text, flush=True)
    if done.returncode:
        last = "".join(f"\n  {line}" for line in text.strip().splitlines()[-LAST_LINES:])
        raise RuntimeEnvError(
            f"{TITLE} can't be installed: {', '.join(requirements)}; `{' '.join(command)}` ended with exit code "
            f"{done.returncode}, and wrote at last:{last}"
        )


def node_version() -> str:
    """Return the version of Python that an environment must have: the node's, such as 3.12."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _name(dependency: str) -> str:
    """Return the name of the package in `python=3.12`, `conda-forge::python` or `python >=3`."""
    text = dependency.rpartition("::")[2].strip()
    for mark in " =<>!~[":
        text = text.partition(mark)[0]
    return text
