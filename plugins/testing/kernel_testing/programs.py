"""Programs that tests start and that not every machine has: which there are, and what installs them.

    need("curl")  # skips the test that runs where there is none, and says what to install

`tools/dev_install.py` installs them from the same table. It runs before anything else is installed, so this file
imports nothing but the standard library when it is read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

PACKAGES = {
    "bwrap": "bubblewrap",
    "curl": "curl",
    "git": "git",
    "ip": "iproute2",
    "openssl": "openssl",
    "redis-server": "redis-server",
    "sshd": "openssh-server",
}
"""Each program with the package that brings it, by the name that Debian and Ubuntu give it."""


def missing() -> list[str]:
    """Return those of `PACKAGES` that this machine does not have."""
    return [program for program in PACKAGES if shutil.which(program) is None]


def advice(programs: Iterable[str]) -> str:
    """Return one line that says that the programs are not there, and what installs them."""
    names = list(programs)
    verb = "is" if len(names) == 1 else "are"
    packages = " ".join(PACKAGES.get(name, name) for name in names)
    return f"{', '.join(names)} {verb} not installed here; on Debian and Ubuntu: apt-get install {packages}"


def need(program: str) -> None:
    """Skip the test that runs, unless the program is there. The reason says what installs it.

    Raises KeyError for a program that is not in `PACKAGES`: `tools/dev_install.py` would not install it.
    """
    import pytest

    PACKAGES[program]
    if shutil.which(program) is None:
        pytest.skip(advice([program]))
