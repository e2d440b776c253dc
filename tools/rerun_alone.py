"""A plugin of pytest: after a run of all tests, each that failed is run again alone, to tell flaky from broken.

Alone is: in a process of its own, with nothing beside it, up to twice. A test that then passes is flaky: its name and
all its tracebacks are shown, and it does not fail the run. More than five tests that fail do, and none is run again.
`tests/flaky.md` has those that are known, each with its cause.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from _pytest.terminal import TerminalReporter

MOST_FLAKY = 5
USUAL_TRIES = 2
LIMIT_SECONDS = 1800
"""What one test may take alone. It ends itself long before, unless it has stopped even its own limit."""

KNOWN = "tests/flaky.md"

Try = Callable[[str], tuple[bool, str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--rerun-alone`."""
    parser.addoption(
        "--rerun-alone",
        type=int,
        metavar="TIMES",
        help="how often a test that failed is run again alone, at the end "
        f"(default: {USUAL_TRIES} in a run of all tests, 0 where tests are named)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note failures, in the process that sees those of all others."""
    tries = config.getoption("rerun_alone")
    if tries is None:
        tries = USUAL_TRIES if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0
    if tries > 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reruns(config, tries))


@dataclass
class Failure:
    """A test that failed: why, each time, and whether it passed in the end."""

    test: str
    reports: list[pytest.TestReport]
    again: list[str] = field(default_factory=list)
    flaky: bool = False


def run_again(failures: list[Failure], tries: int, run: Try, say: Callable[[str], None]) -> bool:
    """Run failed tests again alone until they pass, and return whether all did.

    `run(test)` returns whether a test passed and what was printed; `say(line)` tells how it goes.
    """
    if len(failures) > MOST_FLAKY:
        say(f"{len(failures)} tests failed, more than the {MOST_FLAKY} that may be flaky: none is run again alone")
        return False
    for failure in failures:
        for _ in range(tries):
            failure.flaky, printed = run(failure.test)
            say(f"{'passed' if failure.flaky else 'failed'} when run again alone: {failure.test}")
            if failure.flaky:
                break
            failure.again.append(printed)
    return all(failure.flaky for failure in failures)


class Reruns:
    """Notes what fails, and runs it again when everything else has ended."""

    def __init__(self, config: pytest.Config, tries: int) -> None:
        self._config = config
        self._tries = tries
        self._failures: dict[str, Failure] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a failure."""
        if report.failed:
            self._failures.setdefault(report.nodeid, Failure(report.nodeid, [])).reports.append(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Run what failed again alone, once all processes have ended; let the run pass if nothing else is wrong."""
        cut_short = session.shouldstop or session.shouldfail
        if exitstatus != pytest.ExitCode.TESTS_FAILED or cut_short or not self._failures:
            return
        terminal: TerminalReporter = self._config.pluginmanager.get_plugin("terminalreporter")  # type: ignore[assignment]
        terminal.ensure_newline()
        failures = list(self._failures.values())
        if run_again(failures, self._tries, self._run, terminal.write_line):
            session.exitstatus = pytest.ExitCode.OK
        flaky = {failure.test: failure for failure in failures if failure.flaky}
        for kind in ("failed", "error"):
            reports = terminal.stats.pop(kind, [])
            if others := [report for report in reports if report.nodeid not in flaky]:
                terminal.stats[kind] = others
        if flaky:
            terminal.stats["flaky"] = [failure.reports[0] for failure in flaky.values()]

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Show each flaky test with its tracebacks, then their names."""
        flaky = [failure for failure in self._failures.values() if failure.flaky]
        if not flaky:
            return
        file = self._config.rootpath / KNOWN
        known = file.read_text(encoding="utf-8") if file.is_file() else ""
        for failure in flaky:
            terminalreporter.write_sep("=", f"FLAKY: {failure.test}")
            for report in failure.reports:
                terminalreporter.write_sep("_", f"in the run, at its {report.when}")
                terminalreporter.write_line(report.longreprtext)
                for title, text in report.sections:
                    terminalreporter.write_sep("-", title)
                    terminalreporter.write_line(text)
            for printed in failure.again:
                terminalreporter.write_sep("_", "alone")
                terminalreporter.write_line(printed)
        for failure in flaky:
            note = f"it is in {KNOWN}" if failure.test in known else f"mend it, or write it into {KNOWN} with its cause"
            terminalreporter.write_line(f"flaky: {failure.test} ({note})")

    def _run(self, test: str) -> tuple[bool, str]:
        config = self._config
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--rerun-alone", "0", "-p", "no:cacheprovider"]
        command += ["--rootdir", str(config.rootpath), *(["-c", str(config.inipath)] if config.inipath else []), test]
        with tempfile.TemporaryFile("w+") as output:  # what the test leaves running could keep a pipe open
            try:
                code = subprocess.run(
                    command, cwd=config.rootpath, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                    timeout=LIMIT_SECONDS,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired:
                code = -1
            output.seek(0)
            printed = output.read()
        return code == 0 and re.search(r"\b1 passed\b", printed) is not None, printed
