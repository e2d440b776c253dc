"""Which dead children a subreaper clears away: those it was left, and none that somebody in it waits for."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = textwrap.dedent("""
    import os, subprocess, time
    from kernel_processes.system.processes import become_subreaper, children_of, is_alive, reap_adopted

    become_subreaper()
    mine = subprocess.Popen(["sh", "-c", "exit 3"])
    leader = subprocess.Popen(["sh", "-c", "exit 4"], start_new_session=True)
    parent = subprocess.Popen(["sh", "-c", "(sleep 0.1; exit 5) & exit 0"], start_new_session=True)
    parent.wait()
    worker = os.fork()
    if worker == 0:
        os.setsid()
        os._exit(6)
    found, deadline = [], time.monotonic() + 120
    while len(found) < 2 or is_alive(mine.pid) or is_alive(leader.pid):
        assert time.monotonic() < deadline, found
        found += reap_adopted({worker, 0})
        time.sleep(0.01)
    codes = {os.waitstatus_to_exitcode(status) for _, status in found}
    assert codes == {5, 6}, codes
    assert sorted(children_of(os.getpid())) == sorted([mine.pid, leader.pid])
    assert (mine.wait(), leader.wait()) == (3, 4)
""")


def test_orphans_and_known_ones_are_cleared_away_and_the_others_left() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
