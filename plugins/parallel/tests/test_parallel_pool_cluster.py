"""Pools over several nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

from kernel_parallel.multiprocessing import Pool

import kernel
from kernel.testing import Cluster


def node(_: int) -> str:
    return kernel.get_runtime_context().get_node_id()


PROGRAM = """
from kernel.parallel.multiprocessing import Pool
import kernel
with Pool(2, kernel_address={address!r}) as pool:
    print(pool.map(abs, [-1, -2]), len(kernel.nodes()))
"""


def test_workers_are_spread_by_cpus_and_programs_join_by_address_or_environment() -> None:
    kernel.shutdown()
    with Cluster(num_cpus=1, death_seconds=60.0) as cluster:
        cluster.add_node(num_cpus=3)
        cluster.connect()
        with Pool() as pool:
            assert len(pool._pool) == 4
            nodes = Counter(pool.map(node, range(40), chunksize=1))
            homes = Counter(kernel.get([view._actor.node.remote() for view in pool._pool]))
        assert sorted(homes.values()) == [1, 3] and set(nodes) <= set(homes)
        directory = kernel.init(ignore_reinit_error=True)["address"]
        for address, variable in ((directory, None), (None, directory)):
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            if variable:
                environment["KERNEL_ADDRESS"] = variable
            program = PROGRAM.format(address=address)
            done = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300
            )
            assert done.stdout == "[1, 2] 2\n", done.stderr
    kernel.shutdown()
