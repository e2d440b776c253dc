"""Fixtures of the tests of Ray's names."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from kernel_compat_ray import finder


@pytest.fixture
def fresh_ray() -> Iterator[None]:
    """Have `ray` and its modules imported anew in a test. Afterwards those that were there before are there again."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "ray"}
    for name in before:
        del sys.modules[name]
    finder.install_finder()
    yield
    finder.remove_finder()
    sys.modules.update(before)
