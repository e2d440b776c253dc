"""Arguments that wait in a process: how many, and from when on the larger ones go to the store."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from kernel_engine.objects.value_placement import INLINE_BYTES
from kernel_engine.tasks.argument_budget import SMALL_BYTES, ArgumentBudget


def test_once_the_budget_is_used_only_small_arguments_stay() -> None:
    budget = ArgumentBudget(100_000)
    first, second = SimpleNamespace(weight=60_000), SimpleNamespace(weight=60_000)
    budget.begin(first)
    assert budget.largest == INLINE_BYTES
    budget.begin(second)
    assert budget.largest == SMALL_BYTES
    budget.end(first)
    assert budget.largest == INLINE_BYTES


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 50_000))))
def test_a_call_counts_until_its_first_end(events: list[tuple[int, int]]) -> None:
    budget = ArgumentBudget(100_000)
    calls: dict[int, SimpleNamespace] = {}
    for number, weight in events:
        if number in calls:
            budget.end(calls[number])
            budget.end(calls.pop(number))
        else:
            calls[number] = SimpleNamespace(weight=weight)
            budget.begin(calls[number])
        assert budget.waiting == sum(call.weight for call in calls.values())
        assert (budget.largest == SMALL_BYTES) == (budget.waiting >= 100_000)
