"""Build the wheel of every distribution in this repository: `python tools/build_wheels.py [--out dist]`.

The wheels depend on each other by exact version, so a folder of them is complete: together with any index for
the third-party packages it installs with `pip install --find-links dist "kernel[plugins]==VERSION"`. The version
is not decoration: the public index has an unrelated project of the name `kernel`, with higher version numbers.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from workspace_projects import distributions, version  # noqa: E402


def build(out: Path) -> list[Path]:
    """Build every wheel into `out`, replacing the ones of this repository that are there. Returns their paths."""
    folders = distributions()
    out.mkdir(parents=True, exist_ok=True)
    for name in folders:
        for old in out.glob(f"{name.replace('-', '_')}-*.whl"):
            old.unlink()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out)]
    if importlib.util.find_spec("hatchling"):
        command.append("--no-build-isolation")
    environment = {**os.environ, "KERNEL_BUILD_RELEASE": "1"}
    environment.pop("KERNEL_BUILD_LINKED", None)
    subprocess.run([*command, *map(str, folders.values())], check=True, env=environment)
    return [out / f"{name.replace('-', '_')}-{version()}-py3-none-any.whl" for name in folders]


def problems(wheel: Path) -> list[str]:
    """Return what is wrong with a built wheel: it must not know where it was built."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    headers = metadata.split("\n\n", 1)[0]
    found = [f"{wheel.name}: {line}" for line in headers.splitlines() if re.search(r"@\s*file:", line)]
    return found + [f"{wheel.name}: contains {name}" for name in names if "__pycache__" in name]


def main() -> int:
    """Build, check and list; return the exit code."""
    parser = argparse.ArgumentParser(description="Build the wheel of every distribution in this repository.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where they go (default: dist/)")
    out = parser.parse_args().out.resolve()
    wheels = build(out)
    wrong = [line for wheel in wheels for line in problems(wheel)]
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1024:8.1f} kB  {wheel.name}")
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if not wrong:
        print(f'\nInstall them with:  pip install --find-links {out} "kernel[plugins]=={version()}"')
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
