"""Hosts for the tests of this distribution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.testing.programs import need
from kernel.testing.session import temporary_root
from plugins.provider_local.tests.ssh_hosts import SshHosts


@pytest.fixture(scope="module")
def hosts() -> Iterator[SshHosts]:
    need("sshd")
    with temporary_root() as root:
        made = SshHosts(Path(root))
        for _ in range(3):
            made.add()
        yield made
        made.end()
