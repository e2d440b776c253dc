"""Processes that pass each other references all at once."""

from __future__ import annotations

import gc

import numpy
import pytest

import kernel

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 120.0


@kernel.remote(num_cpus=0)
class Partner:
    """Puts, sends, keeps and reads references of its own and of others."""

    def __init__(self):
        self.partners = []
        self.kept = []

    def meet(self, partners):
        self.partners = partners

    def give(self, rounds, size):
        """Send new objects to every partner, with nothing kept here, and check what came."""
        calls = []
        for i in range(rounds):
            for partner in self.partners:
                calls.append(partner.take.remote([kernel.put(numpy.full(size, i))], i))
            if i % 10 == 9:
                kernel.get(calls)
                calls = []
        kernel.get(calls)

    def take(self, refs, i):
        self.kept.append((refs[0], i))
        if len(self.kept) > 20:
            ref, expected = self.kept.pop(0)
            assert kernel.get(ref)[0] == expected
        return refs

    def finish(self):
        for ref, expected in self.kept:
            assert kernel.get(ref)[0] == expected
        self.kept = []
        self.partners = []

    def known(self):
        gc.collect()
        return len(kernel.api.session.ensure_session().ownership.objects)


@pytest.mark.parametrize("size", [1, 20_000], ids=["inline", "stored"])
def test_everybody_sends_to_everybody(size, eventually):
    partners = [Partner.options(max_concurrency=4).remote() for _ in range(3)]
    for partner in partners:
        kernel.get(partner.meet.remote([other for other in partners if other is not partner]))
    kernel.get([partner.give.remote(40, size) for partner in partners], timeout=SECONDS)
    kernel.get([partner.finish.remote() for partner in partners], timeout=SECONDS)
    eventually(lambda: kernel.get([partner.known.remote() for partner in partners]) == [0, 0, 0])
    runtime = kernel.api.session.ensure_session()
    eventually(lambda: runtime.query("status")["store"]["used"] == 0)
