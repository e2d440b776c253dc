"""Jobs of programs and of detached actors: whose surroundings they have, and how long they are known."""

from __future__ import annotations

from typing import Any

from kernel_processes.head.job_table import KEPT_ENDED, JobRecord, JobTable
from kernel_processes.head.nodes import ProcessRecord
from kernel_spec.ids import JobId, ProcessId


def join(table: JobTable, name: str, **details: Any) -> JobRecord:
    id = name.encode()
    driver = ProcessRecord(ProcessId(id), "driver", 1, "", JobId(id), "", {"cwd": f"/{name}", **details}, node=None)  # type: ignore[arg-type]
    return table.add(driver, 1.0)


def test_detached_actors_of_two_programs_in_one_namespace_keep_apart() -> None:
    table = JobTable()
    first = join(table, "first", path=["/first/lib"], variables={"A": "1"}, environment="e1")
    second = join(table, "second")
    one, two = table.detached(first.id, "prod"), table.detached(second.id, "prod")
    assert one != two
    job = table.get(one)
    assert (job.namespace, job.cwd, job.path, job.variables) == ("prod", "/first", ["/first/lib"], {"A": "1"})
    assert job.environment == "e1"
    assert (table.get(two).cwd, table.get(two).path) == ("/second", [])
    assert table.detached(first.id, "prod") == one
    assert table.detached(first.id, "test") != one
    assert not job.is_program and first.is_program


def test_what_a_detached_actor_creates_belongs_to_the_program_behind_it() -> None:
    table = JobTable()
    first = join(table, "first")
    outer = table.detached(first.id, "a")
    assert table.detached(outer, "a") == outer
    inner = table.detached(table.detached(outer, "b"), "a")
    assert inner == outer, "ids don't grow from actor to actor"


def test_programs_that_ended_last_are_remembered() -> None:
    table = JobTable()
    lasting = join(table, "lasting")
    for number in range(KEPT_ENDED + 10):
        table.end(join(table, f"program {number}").driver, 2.0 + number)
    running = join(table, "running")
    table.end(lasting.driver, 1000.0)
    table.forget(set())
    assert len(table.jobs) == KEPT_ENDED + 1
    assert {lasting.id, running.id} <= set(table.jobs)
    assert table.get(b"program 10").cwd == "", "it is forgotten"
    assert table.get(b"program 11").cwd == "/program 11"


def test_surroundings_of_detached_actors_are_known_as_long_as_they_are_used() -> None:
    table = JobTable()
    first = join(table, "first")
    kept, gone = table.detached(first.id, "kept"), table.detached(first.id, "gone")
    table.end(first.driver, 2.0)
    table.forget({kept})
    assert kept in table.jobs and gone not in table.jobs
    assert table.get(kept).cwd == "/first"
