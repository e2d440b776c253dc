"""The engine of threads passes the conformance suite, and a program can choose it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kernel_engine_threads.engine import open_session

from kernel.conformance.engine import EngineConformance

PROGRAM = """
import kernel, threading
pool = kernel.remote(lambda: threading.current_thread().name)
assert kernel.get(pool.remote()) != threading.current_thread().name
endless = kernel.remote(threading.Event().wait).remote()  # nothing waits for it
print(kernel.init(ignore_reinit_error=True)["session_dir"])"""


class TestThreads(EngineConformance):
    make_session = staticmethod(open_session)
    refused = ({"address": "auto"}, {"runtime_env": {"env_vars": {"A": "1"}}}, {"scheduler": "fifo"})
    interrupts = async_actors = concurrent_actors = restarts = placement_groups = False


def test_a_program_chooses_it_by_its_name(tmp_path: Path) -> None:
    installed = tmp_path / "kernel_engine_threads-0.1.0.dist-info"
    installed.mkdir()
    entry_point = "[kernel.engines]\nthreads = kernel_engine_threads.engine:open_session\n"
    (installed / "entry_points.txt").write_text(entry_point)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "KERNEL_ENGINE": "threads", "PYTHONPATH": path}
    told = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert told.returncode == 0, told.stderr
    assert "kernel-threads-" in told.stdout and not os.path.exists(told.stdout.strip())
