"""What a process says that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kernel.runtime.object_entry import dropped
from kernel.runtime.object_ref import ObjectRef
from kernel_processes.runtime.inspection import Inspection
from plugins.processes.tests.runtime.owner_bench import ID, SECOND, Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    dropped.clear()
    yield Bench()
    dropped.clear()


def kinds(bench: Bench) -> dict[Any, str]:
    bench.process.methods = {}
    nothing: Any = None
    inspection = Inspection(bench.process, bench.table, nothing, nothing, nothing, {})
    _, _, rows = inspection.references()
    return {row[0]: row[3] for row in rows}


def test_references_that_were_collected_count_no_more_though_nothing_else_has_happened(bench: Bench) -> None:
    inner, outer = ObjectRef(bench.own()), ObjectRef(bench.own(SECOND))
    bench.table.contain(outer._entry, [inner])
    assert kinds(bench) == {ID: "LOCAL_REFERENCE", SECOND: "LOCAL_REFERENCE"}
    del inner
    assert kinds(bench) == {ID: "CAPTURED_IN_OBJECT", SECOND: "LOCAL_REFERENCE"}
    del outer
    assert kinds(bench) == {}
