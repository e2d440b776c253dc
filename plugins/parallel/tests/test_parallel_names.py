"""Every name of the library is there, loaded when it is used, and in the mounted place too."""

from __future__ import annotations

import subprocess
import sys

import kernel_parallel
import pytest

import kernel.parallel


@pytest.mark.parametrize("name", sorted(kernel_parallel.__all__))
def test_every_name_is_where_it_is_said_to_be(name: str) -> None:
    assert getattr(kernel.parallel, name) is getattr(kernel_parallel, name)


def test_the_library_loads_nothing_before_it_is_used() -> None:
    code = (
        "import sys, kernel.parallel; "
        "print([name for name in sys.modules if name.startswith('kernel_parallel.')], 'numpy' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] False"


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kernel_parallel.nothing  # noqa: B018
