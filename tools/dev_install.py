"""Install everything in this repository for development: `python tools/dev_install.py`.

One pip run into the Python that runs this file: every distribution editable (kernel-spec, kernel, all plugins),
and the tools of the `dev` extra. Arguments are handed to pip (`--no-build-isolation`, `--quiet`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from workspace_projects import ROOT, distributions  # noqa: E402


def main() -> int:
    """Run pip and return its exit code."""
    command = [sys.executable, "-m", "pip", "install", *sys.argv[1:]]
    for folder in distributions().values():
        command += ["--editable", f"{folder}[dev]" if folder == ROOT else str(folder)]
    return subprocess.run(command, env={**os.environ, "KERNEL_BUILD_LINKED": "1"}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
