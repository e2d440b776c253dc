"""Objects on several nodes: copies and their ends, references inside values, spilling elsewhere."""

from __future__ import annotations

import numpy
import pytest

import kernel
from kernel.testing import Cluster

pytestmark = pytest.mark.usefixtures("cluster", "nothing_left")

SECONDS = 120.0

A, B, C = ({"resources": {name: 0.01}, "num_cpus": 0} for name in "abc")
BYTES = 1_600_000


def stored():
    """Return how many objects lie in the stores of all nodes."""
    return len(kernel.api.session.ensure_session().query("memory")["stored"])


@kernel.remote(num_cpus=0)
def total(array):
    return int(array.sum())


@kernel.remote(num_cpus=0)
def total_inside(refs):
    return [int(kernel.get(ref).sum()) for ref in refs]


@kernel.remote(num_cpus=0)
def put(value, count=1):
    return [kernel.put(numpy.full(BYTES // 8, value)) for _ in range(count)]


@kernel.remote(num_cpus=0)
def pass_on(refs, ways):
    """Hand references on to a task elsewhere, which hands them on."""
    if not ways:
        return [int(kernel.get(ref).sum()) for ref in refs]
    return kernel.get(pass_on.options(**ways[0]).remote(refs, ways[1:]))


def test_every_copy_goes_with_the_last_reference(eventually):
    ref = kernel.put(numpy.ones(BYTES // 8))
    assert kernel.get([total.options(**one).remote(ref) for one in (B, C)]) == [BYTES // 8] * 2
    eventually(lambda: stored() == 3)
    del ref
    eventually(lambda: stored() == 0)


def test_a_result_that_nobody_reads_goes_too(eventually):
    @kernel.remote(**B)
    def make():
        return numpy.ones(BYTES // 8)

    refs = [make.remote() for _ in range(5)]
    kernel.wait(refs, num_returns=5, timeout=SECONDS)
    eventually(lambda: stored() == 5)
    del refs
    eventually(lambda: stored() == 0)


def test_a_result_is_dropped_before_it_is_there(eventually):
    @kernel.remote(**B)
    def make():
        return numpy.ones(BYTES // 8)

    for _ in range(20):
        make.remote()
    kernel.get(make.remote())
    eventually(lambda: stored() == 0)


def test_references_inside_arguments_travel_through_all_nodes():
    refs = [kernel.put(numpy.full(size, 1)) for size in (10, 200_000)]
    assert kernel.get(pass_on.remote(refs, [B, C, A, C, B])) == [10, 200_000]


def test_references_inside_results_outlive_the_task():
    refs = kernel.get(put.options(**B).remote(1, 3))
    assert kernel.get(total_inside.options(**C).remote(refs)) == [BYTES // 8] * 3
    assert [int(kernel.get(ref).sum()) for ref in refs] == [BYTES // 8] * 3


def test_a_borrower_keeps_an_object_alive_after_its_owner_dropped_it(eventually):
    @kernel.remote(num_cpus=0)
    class Holder:
        def hold(self, refs):
            self.refs = refs

        def read(self):
            return int(kernel.get(self.refs[0]).sum())

    holder = Holder.options(**B).remote()
    kernel.get(holder.hold.remote([kernel.put(numpy.ones(BYTES // 8))]))
    eventually(lambda: stored() == 1)
    assert kernel.get(holder.read.remote()) == BYTES // 8
    del holder
    eventually(lambda: stored() == 0)


def test_a_reference_to_a_reference():
    inner = kernel.put(numpy.ones(BYTES // 8))
    outer = kernel.put([kernel.put([inner])])
    del inner

    @kernel.remote(num_cpus=0)
    def dig(outer):
        [middle] = outer
        [inner] = kernel.get(middle)
        return int(kernel.get(inner).sum())

    assert kernel.get([dig.options(**one).remote(outer) for one in (B, C, B)]) == [BYTES // 8] * 3


def test_many_readers_of_one_object_at_once():
    ref = kernel.put(numpy.ones(3_000_000))
    readers = [total.options(**(B, C)[i % 2]).remote(ref) for i in range(20)]
    assert kernel.get(readers, timeout=SECONDS) == [3_000_000] * 20


def test_objects_that_own_each_other_across_nodes():
    first = kernel.get(put.options(**B).remote(1))
    second = kernel.put(first)
    third = kernel.get(put.options(**C).remote(2))
    assert kernel.get(total_inside.options(**C).remote(first)) == [BYTES // 8]
    assert kernel.get(total_inside.options(**B).remote(third)) == [BYTES // 4]
    del first
    assert kernel.get(kernel.get(second)[0]).sum() == BYTES // 8


def weak_copies(ref):
    """Return of each copy of an object whether it may be dropped."""
    rows = kernel.api.session.ensure_session().query("memory")["stored"]
    return sorted(weak for object, *_, weak in rows if object == ref.binary())


def test_a_copy_may_be_dropped_until_it_is_the_last(cluster: Cluster, eventually):
    """One that is made nowhere else can't be made again either: its task may run once."""
    home = cluster.add_node(num_cpus=1, resources={"home": 10})
    small = cluster.add_node(num_cpus=1, resources={"small": 10}, object_store_memory=40 << 20)
    there = {"resources": {"small": 0.01}, "num_cpus": 0}

    @kernel.remote(num_cpus=0, max_retries=0)
    def make(value):
        return numpy.full(1_000_000, value)

    first, second = (make.options(resources={"home": 0.01}).remote(i) for i in (1, 2))
    assert kernel.get([total.options(**there).remote(ref) for ref in (first, second)]) == [1_000_000, 2_000_000]
    eventually(lambda: weak_copies(first) == weak_copies(second) == [False, True])
    more = [make.options(**there).remote(i) for i in range(5)]  # 40 MB: there is no room for the copies
    kernel.wait(more, num_returns=5, timeout=SECONDS)
    eventually(lambda: True not in weak_copies(first) + weak_copies(second))
    assert kernel.get(total.options(**there).remote(first)) == 1_000_000
    cluster.kill_node(home)
    eventually(lambda: weak_copies(first) == [False])
    more += [make.options(**there).remote(i) for i in range(4)]
    kernel.wait(more, num_returns=9, timeout=SECONDS)
    assert kernel.get(total.options(**there).remote(first)) == 1_000_000
    with pytest.raises(kernel.exceptions.ObjectLostError, match=r"max_retries are 0 or used up\), so nothing could"):
        kernel.get(second, timeout=SECONDS)
    del more
    cluster.remove_node(small)


def test_a_full_store_spills_at_another_node(cluster: Cluster):
    small = cluster.add_node(num_cpus=1, resources={"small": 10}, object_store_memory=40 << 20)
    there = {"resources": {"small": 0.01}, "num_cpus": 0}

    @kernel.remote(**there)
    def make(value):
        return numpy.full(1_000_000, value)

    refs = [make.remote(i) for i in range(12)]  # 96 MB
    assert kernel.get([total.options(**B).remote(ref) for ref in refs], timeout=SECONDS) == [
        i * 1_000_000 for i in range(12)
    ]
    assert kernel.get([total.options(**there).remote(ref) for ref in refs], timeout=SECONDS)[-1] == 11_000_000
    assert [int(kernel.get(ref)[0]) for ref in refs] == list(range(12))
    del refs
    cluster.remove_node(small)
