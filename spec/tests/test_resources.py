"""The resource pool against a model that only adds up what is held."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernel_spec.resources import (
    UNIT,
    Allocation,
    ResourcePool,
    amounts,
    describe,
    from_units,
    quantities,
    to_units,
)

units = st.integers(min_value=0, max_value=4 * UNIT)
device_units = st.one_of(
    st.sampled_from([UNIT, 2 * UNIT, 3 * UNIT]), st.integers(min_value=1, max_value=UNIT), st.just(UNIT // 2)
)
wanted_amounts = st.fixed_dictionaries({}, optional={"CPU": units, "blue": units, "GPU": device_units})


class PoolMachine(RuleBasedStateMachine):
    """Random acquire, release, lend, reclaim, set_total and resize, checked against plain sums."""

    @initialize(cpus=st.integers(0, 6), gpus=st.sampled_from([0, 1, 2, 3, 1.5]))
    def start(self, cpus: int, gpus: float) -> None:
        self.total = amounts({"CPU": cpus, "GPU": gpus})
        self.pool = ResourcePool({"CPU": cpus, "GPU": gpus})
        self.held: list[Allocation] = []
        self.lent: dict[int, int] = {}

    @rule(wanted=wanted_amounts)
    def acquire(self, wanted: dict[str, int]) -> None:
        missing = self.pool.missing(wanted)
        before = dict(self.pool.available)
        allocation = self.pool.acquire(wanted)
        assert (allocation is None) == bool(missing)
        if allocation is None:
            assert self.pool.available == before
            return
        assert self.pool.fits_ever(wanted)
        assert allocation.amounts == {name: units for name, units in wanted.items() if units}
        gpus = wanted.get("GPU", 0)
        shares = allocation.devices.get("GPU", {})
        assert sum(shares.values()) == gpus
        assert len(shares) == (gpus // UNIT if gpus >= UNIT else min(gpus, 1))
        self.held.append(allocation)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        allocation = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        if id(allocation) in self.lent:
            self.pool.reclaim("CPU", self.lent.pop(id(allocation)))
        self.pool.release(allocation)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def lend_or_reclaim(self, data: st.DataObject) -> None:
        allocation = self.held[data.draw(st.integers(0, len(self.held) - 1))]
        if id(allocation) in self.lent:
            self.pool.reclaim("CPU", self.lent.pop(id(allocation)))
        else:
            self.lent[id(allocation)] = allocation.amounts.get("CPU", 0)
            self.pool.lend("CPU", self.lent[id(allocation)])

    @rule(name=st.sampled_from(["CPU", "blue"]), quantity=st.integers(0, 6))
    def set_total(self, name: str, quantity: int) -> None:
        self.pool.set_total(name, quantity)
        self.total.pop(name, None)
        self.total.update(amounts({name: quantity}))

    @rule(cpus=st.integers(0, 6), gpus=st.sampled_from([0, 1, 2, 4, 2.5]))
    def resize(self, cpus: int, gpus: float) -> None:
        self.pool.resize({"CPU": cpus, "GPU": gpus})
        self.total = amounts({"CPU": cpus, "GPU": gpus})

    @invariant()
    def adds_up(self) -> None:
        if not hasattr(self, "pool"):
            return
        self.pool.validate()
        assert self.pool.total == self.total
        for name in ("CPU", "GPU", "blue"):
            used = sum(allocation.amounts.get(name, 0) for allocation in self.held)
            lent = sum(self.lent.values()) if name == "CPU" else 0
            assert self.pool.available.get(name, 0) == self.total.get(name, 0) - used + lent
        for index in range(8):
            assert sum(allocation.devices.get("GPU", {}).get(index, 0) for allocation in self.held) <= UNIT

    @invariant()
    def a_copy_is_equal_and_independent(self) -> None:
        if not hasattr(self, "pool"):
            return
        copy = self.pool.copy()
        copy.validate()
        before = dict(self.pool.available)
        copy.acquire({"CPU": 1, "GPU": 1})
        assert self.pool.available == before


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase


@given(st.integers(min_value=1, max_value=UNIT))
def test_equal_shares_never_exceed_one_device(share: int) -> None:
    pool = ResourcePool({"GPU": 1})
    granted = 0
    while pool.acquire({"GPU": share}) is not None:
        granted += 1
    assert granted == UNIT // share
    pool.validate()


def test_three_thirds_fit_on_one_device_and_a_fourth_does_not() -> None:
    pool = ResourcePool({"GPU": 1})
    third = amounts({"GPU": 1 / 3})
    assert [pool.acquire(third) is not None for _ in range(4)] == [True, True, True, False]


def test_tenths_add_up_exactly() -> None:
    pool = ResourcePool({"CPU": 1})
    held = [pool.acquire(amounts({"CPU": 0.1})) for _ in range(10)]
    assert pool.available == {"CPU": 0}
    for allocation in held:
        assert allocation is not None
        pool.release(allocation)
    assert pool.available == pool.total == {"CPU": UNIT}


def test_a_share_goes_to_the_fullest_device_that_can_take_it() -> None:
    pool = ResourcePool({"GPU": 2})
    first = pool.acquire(amounts({"GPU": 0.5}))
    second = pool.acquire(amounts({"GPU": 0.5}))
    assert first is not None and second is not None
    assert first.devices == second.devices
    assert pool.acquire(amounts({"GPU": 1})) is not None


def test_two_halves_on_two_devices_are_no_whole_device() -> None:
    pool = ResourcePool({"GPU": 2})
    shares = [pool.acquire(amounts({"GPU": 0.6})) for _ in range(2)]
    assert None not in shares
    assert pool.missing(amounts({"GPU": 0.5})) == {"GPU": 1000}
    assert pool.acquire(amounts({"GPU": 0.5})) is None
    assert pool.missing(amounts({"GPU": 1})) == {"GPU": UNIT}


def test_one_and_a_half_devices_can_never_be_had() -> None:
    pool = ResourcePool({"GPU": 4})
    assert not pool.fits_ever(amounts({"GPU": 1.5}))
    assert pool.acquire(amounts({"GPU": 1.5})) is None
    assert pool.missing(amounts({"GPU": 1.5}))


def test_a_total_that_is_not_whole_has_a_smaller_last_device() -> None:
    pool = ResourcePool({"GPU": 1.5})
    pool.validate()
    assert pool.fits_ever(amounts({"GPU": 1})) and not pool.fits_ever(amounts({"GPU": 1.2}))
    assert pool.acquire(amounts({"GPU": 1})) == Allocation({"GPU": UNIT}, {"GPU": {0: UNIT}})
    assert pool.acquire(amounts({"GPU": 0.5})) == Allocation({"GPU": UNIT // 2}, {"GPU": {1: UNIT // 2}})
    pool.validate()


def test_zero_amounts_cost_nothing_even_of_a_missing_resource() -> None:
    pool = ResourcePool({"CPU": 1})
    assert pool.fits_ever({"GPU": 0, "blue": 0})
    assert pool.acquire({"GPU": 0, "blue": 0}) == Allocation({}, {})


def test_what_is_in_use_on_a_lost_device_is_missing_elsewhere() -> None:
    pool = ResourcePool({"GPU": 2.5})
    assert pool.acquire({"GPU": UNIT // 2}) == Allocation({"GPU": UNIT // 2}, {"GPU": {2: UNIT // 2}})
    pool.resize({"GPU": 1})
    assert pool.acquire({"GPU": UNIT}) is None and pool.missing({"GPU": UNIT}) == {"GPU": UNIT // 2}
    assert pool.missing({"GPU": UNIT // 2}) == {}


def test_a_lost_device_is_taken_away_when_its_holder_ends() -> None:
    pool = ResourcePool({"GPU": 2})
    held = pool.acquire({"GPU": 2 * UNIT})
    assert held is not None
    pool.resize({"GPU": 1})
    pool.validate()
    assert pool.available["GPU"] == -UNIT
    pool.release(held)
    assert pool.available["GPU"] == UNIT and not pool.fits_ever({"GPU": 2 * UNIT})
    pool.validate()


@pytest.mark.parametrize("action", ["lend", "reclaim", "set_total"])
def test_devices_are_not_lent_nor_changed(action: str) -> None:
    for pool in (ResourcePool({"GPU": 1}), ResourcePool({"CPU": 1})):
        with pytest.raises(ValueError, match="GPU comes in devices and can't be"):
            getattr(pool, action)("GPU", 1)
        pool.validate()


@pytest.mark.parametrize("bad", [-1, -0.5, math.nan, math.inf])
def test_a_quantity_must_be_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(ValueError, match="must be a finite number, zero or more, not"):
        to_units(bad)


def test_a_quantity_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(ValueError, match=r"can't be finer than 0\.0001"):
        to_units(0.00004)


@given(st.integers(min_value=0, max_value=10**9))
def test_units_survive_being_printed(exact: int) -> None:
    assert to_units(from_units(exact)) == exact


def test_words_for_people() -> None:
    exact = amounts({"GPU": 0.5, "CPU": 2, "blue": 0})
    assert exact == {"GPU": 5000, "CPU": 20000}
    assert quantities(exact) == {"GPU": 0.5, "CPU": 2.0}
    assert describe(exact) == "CPU: 2, GPU: 0.5"
    assert describe({}) == "nothing"


def test_a_pool_of_an_allocation_has_just_that() -> None:
    whole = ResourcePool({"CPU": 4, "GPU": 4})
    whole.acquire({"GPU": UNIT})
    allocation = whole.acquire({"CPU": 2 * UNIT, "GPU": 2 * UNIT})
    assert allocation is not None
    part = ResourcePool.of(allocation)
    part.validate()
    assert part.total == part.available == {"CPU": 2 * UNIT, "GPU": 2 * UNIT}
    first, second = part.acquire({"GPU": UNIT}), part.acquire({"GPU": UNIT})
    assert first is not None and second is not None
    assert {*first.devices["GPU"], *second.devices["GPU"]} == {1, 2}, "the devices keep their numbers"
    assert part.acquire({"GPU": 1}) is None and not part.fits_ever({"GPU": 3 * UNIT})
    part.validate()


def test_a_pool_of_a_share_gives_that_share() -> None:
    part = ResourcePool.of(Allocation({"GPU": UNIT // 2}, {"GPU": {3: UNIT // 2}}))
    assert part.fits_ever({"GPU": UNIT // 2}) and not part.fits_ever({"GPU": UNIT})
    taken = part.acquire({"GPU": UNIT // 4})
    assert taken is not None and taken.devices == {"GPU": {3: UNIT // 4}}
    part.validate()


def test_emptied_is_a_copy_of_which_all_is_free() -> None:
    pool = ResourcePool({"CPU": 2, "GPU": 1})
    pool.acquire({"CPU": UNIT, "GPU": UNIT})
    empty = pool.emptied()
    assert empty.available == empty.total == pool.total and empty.acquire({"GPU": UNIT}) is not None
    assert pool.available == {"CPU": UNIT, "GPU": 0}, "the other one is as it was"


def test_what_is_taken_may_be_more_than_there_is() -> None:
    pool = ResourcePool({"CPU": 1, "GPU": 1})
    held = Allocation({"CPU": 2 * UNIT, "GPU": UNIT, "blue": UNIT}, {"GPU": {2: UNIT}})
    assert pool.shortage(held) == UNIT + UNIT + UNIT, "a CPU too few, no blue, and no device 2"
    pool.take(held)
    pool.validate()
    assert pool.available == {"CPU": -UNIT, "GPU": 0, "blue": -UNIT}
    assert pool.acquire({"CPU": 1}) is None
    pool.release(held)
    pool.validate()
    assert pool.available == {"CPU": UNIT, "GPU": UNIT, "blue": 0}
    assert pool.shortage(Allocation({"CPU": UNIT, "GPU": UNIT}, {"GPU": {0: UNIT}})) == 0
