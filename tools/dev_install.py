"""Install everything in this repository for development: `python tools/dev_install.py`.

One pip run into the Python that runs this file, or that `--python PATH` names: every distribution editable
(kernel-spec, kernel, all plugins), and the tools of the `dev` extra. Other arguments are handed to `pip install`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from workspace_projects import ROOT, distributions


def main() -> int:
    """Run pip and return its exit code."""
    parser = argparse.ArgumentParser(description="Install everything in this repository editable, with its tools.")
    parser.add_argument("--python", help="the Python to install into (default: the one that runs this)")
    arguments, for_pip = parser.parse_known_args()
    elsewhere = ["--python", arguments.python] if arguments.python else []
    command = [sys.executable, "-m", "pip", *elsewhere, "install", *for_pip]
    for folder in distributions().values():
        command += ["--editable", f"{folder}[dev]" if folder == ROOT else str(folder)]
    return subprocess.run(command, env={**os.environ, "KERNEL_BUILD_LINKED": "1"}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
