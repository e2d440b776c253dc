"""Install all that developing and testing this repository needs: `python tools/dev_install.py`.

Into the Python that runs this file, or that `--python PATH` names: every distribution editable (kernel-spec, kernel,
all plugins), and the tools of the `dev` extra. Other arguments are handed to `pip install`. What builds is installed
first, and shared: an environment for the build of each distribution would take as long as all the rest.

Into the machine: the programs that tests start, such as Redis, where apt-get may install them (`--no-programs` leaves
that out). Where it may not, one line says what to install, and the tests that need it are skipped.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from system_packages import install_programs
from workspace_projects import ROOT, distributions

BUILDERS = ["hatchling>=1.24", "editables>=0.5"]
"""What the distributions are built with, editable."""

PIP = "pip>=25.0"
"""The one that a virtual environment is born with may take twice as long."""


def main() -> int:
    """Run pip, and apt-get where a program is missing; return the exit code of pip."""
    parser = argparse.ArgumentParser(description="Install everything in this repository editable, with its tools.")
    parser.add_argument("--python", help="the Python to install into (default: the one that runs this)")
    parser.add_argument("--no-programs", action="store_true", help="leave out the programs that tests start")
    arguments, for_pip = parser.parse_known_args()
    remove_remains(ROOT / "kernel")
    elsewhere = ["--python", arguments.python] if arguments.python else []
    # What is imported is compiled then; to compile all that is installed takes a third of the time.
    install = [sys.executable, "-m", "pip", *elsewhere, "install", "--no-compile", *for_pip]
    first = BUILDERS if elsewhere else [PIP, *BUILDERS]
    everything = ["--no-build-isolation"]
    for folder in distributions().values():
        everything += ["--editable", f"{folder}[dev]" if folder == ROOT else str(folder)]
    environment = {**os.environ, "KERNEL_BUILD_LINKED": "1"}
    for what in (first, everything):
        if code := subprocess.run([*install, *what], env=environment).returncode:
            return code
    if not arguments.no_programs:
        install_programs()
    return 0


def remove_remains(folder: Path) -> None:
    """Remove folders below that hold nothing but compiled files, as a package leaves that has moved elsewhere.

    Python takes such a folder for a package, in front of a library that is mounted there.
    """
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not any(each.is_file() and each.suffix != ".pyc" for each in path.rglob("*")):
            shutil.rmtree(path)


if __name__ == "__main__":
    raise SystemExit(main())
