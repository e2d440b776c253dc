"""A plugin of pytest: a test that ends its process, or hangs it, costs itself and nothing else.

When a process of pytest-xdist is lost, `LoadFileScheduling` gives all its unfinished tests to the next one, the test
that was to blame included, which loses the next one, too. What it gives to processes that have only just begun is
lost, and a process that was given a single test waits for one more before it begins. `FileScheduling` counts the test
as done, and gives each process that is ready enough, or tells it the end.
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FileScheduling(LoadFileScheduling):
    """Gives files of tests to processes, one file after the other, and the rest of a lost process's to the others."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process, and return the test that it ran, or None where it had none left to run."""
        work = self.assigned_work.pop(node)
        unfinished = [(file, test) for file, tests in work.items() for test, done in tests.items() if not done]
        if not unfinished:
            return None
        file, lost = unfinished[0]
        work[file][lost] = True
        self.workqueue.update({name: tests for name, tests in work.items() if not all(tests.values())})
        for other in self.nodes:
            self._reschedule(other)
        return lost

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it takes the place of a lost one, and is still looking which tests there are
        try:
            while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
                self._assign_work_unit(node)
        except OSError:
            return  # it is lost already: what it was given goes to others when `remove_node` is called
        if not self.workqueue and not node.shutting_down:
            node.shutdown()  # it would else keep its last test until it is given another


class Account:
    """Fails a run that lost processes, and tests with them, though none that ran has failed."""

    def __init__(self) -> None:
        self._ran: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test ran."""
        self._ran.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Compare the tests that ran with those that there are, where other processes run them."""
        left = session.testscollected - len(self._ran)
        if session.config.pluginmanager.hasplugin("dsession") and exitstatus == pytest.ExitCode.OK and left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            session.shouldfail = f"{left} of {session.testscollected} tests did not run: processes were lost"


def pytest_configure(config: pytest.Config) -> None:
    """Keep account, in the process that sees the tests of all others."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Account())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileScheduling | None:
    """Take the place of what `--dist=loadfile` stands for."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadfile" else None
