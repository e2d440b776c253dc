"""What was built for runtime environments is built once, remembered, and goes when there is no room."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_processes.node.build_cache import FAILED_SECONDS, BuildCache, EnvironmentPart
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError

START = WorkerStart(paths=("/somewhere",))
ERROR = RuntimeEnvError("runtime_env['pip'] can't be installed")
A, B, C = (EnvironmentPart("pip", digest) for digest in "abc")


def cache_with(*parts: EnvironmentPart, size: float = 10.0) -> BuildCache:
    """Return a cache in which parts were built one after another, a second each."""
    cache = BuildCache()
    for number, part in enumerate(parts):
        assert cache.want(part, number) is True
        cache.built(part, START, size, number)
    return cache


def test_a_part_is_built_once_for_all_who_ask() -> None:
    cache = BuildCache()
    assert [cache.want(A, 0.0) for _ in range(3)] == [True, False, False]
    cache.built(A, START, 1.0, 5.0)
    assert cache.want(A, 6.0) == START
    assert cache.want(EnvironmentPart("conda", "a"), 6.0) is True, "another field with the same value is another part"


def test_a_failure_is_told_for_some_seconds_and_then_tried_again() -> None:
    cache = BuildCache()
    cache.want(A, 0.0)
    cache.failed(A, ERROR, 5.0)
    assert cache.want(A, 5.0 + FAILED_SECONDS - 0.1) is ERROR
    assert cache.want(A, 5.0 + FAILED_SECONDS) is True


def test_what_was_asked_for_longest_ago_goes_first() -> None:
    cache = cache_with(A, B, C)
    cache.want(A, 10.0)
    assert cache.evict("pip", 25.0, ()) == [B]
    assert cache.evict("pip", 25.0, ()) == []
    assert cache.want(B, 11.0) is True, "it is built anew"


def test_what_is_in_use_stays_whatever_it_takes() -> None:
    assert cache_with(A, B, C).evict("pip", 5.0, {A, C}) == [B]
    assert cache_with(A, B, C).evict("pip", 0.0, {A, B, C}) == []


def test_other_fields_and_what_is_being_built_are_left_alone() -> None:
    cache = cache_with(A, EnvironmentPart("conda", "x"))
    cache.want(B, 3.0)
    assert cache.evict("pip", 0.0, ()) == [A]
    assert cache.want(B, 4.0) is False


@given(st.lists(st.tuples(st.sampled_from("wbfe"), st.sampled_from([A, B, C])), max_size=30), st.floats(0, 40))
def test_no_history_breaks_the_records_or_the_limit(history: list[tuple[str, EnvironmentPart]], limit: float) -> None:
    cache, building, there = BuildCache(), set[EnvironmentPart](), set[EnvironmentPart]()
    for now, (event, part) in enumerate(history):
        if event == "w":
            answer = cache.want(part, now)
            assert (answer == START) == (part in there)
            if answer is True:
                assert part not in building
                building.add(part)
        elif event == "b" and part in building:
            building.remove(part)
            there.add(part)
            cache.built(part, START, 10.0, now)
        elif event == "f" and part in building:
            building.remove(part)
            cache.failed(part, ERROR, now)
        elif event == "e":
            there -= set(cache.evict("pip", limit, {part}))
            assert len(there - {part}) * 10 + 10 * (part in there) <= max(limit, 10 * (part in there))
        cache.validate()


def test_the_name_of_a_part_is_that_of_its_directory() -> None:
    assert A.name == "pip-a"
    with pytest.raises(AttributeError):
        A.field = "other"  # type: ignore[misc]
