"""What a program lets go of, it does not keep."""

from __future__ import annotations

import sys

import pytest

import kernel
from kernel.runtime.current import get_runtime


@pytest.mark.usefixtures("session")
def test_a_program_that_lets_go_of_many_references_keeps_no_room_for_them(eventually) -> None:  # type: ignore[no-untyped-def]
    refs = [kernel.put(None) for _ in range(150_000)]
    objects = get_runtime().ownership.objects  # type: ignore[attr-defined]
    assert kernel.get(refs[-1]) is None and sys.getsizeof(objects) > 4 << 20
    del refs
    eventually(lambda: sys.getsizeof(objects) < 1 << 20)
