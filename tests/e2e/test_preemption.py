"""A scheduler plugin that takes workers away: what they ran is run again, and that costs no retry."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernel
from kernel.testing.faults import wait_until
from kernel.testing.session import running_session

RUTHLESS = {
    "ruthless-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ruthless\nVersion: 1.0\n",
    "ruthless-1.0.dist-info/entry_points.txt": "[kernel.plugins]\nscheduler_ruthless = ruthless_plugin\n",
    "ruthless_plugin.py": """
from kernel.defaults.scheduler import LocalScheduler
from kernel_spec import hookimpl
from kernel_spec.scheduling import Preempt


class Ruthless(LocalScheduler):
    name = "ruthless"

    def handle(self, event, now):
        steps = super().handle(event, now)
        if any(request.hints.get("rank") for request in self._waiting.values()):
            low = [one.request for one in self._ledger.leases.values() if not one.request.hints.get("rank")]
            steps += [Preempt(one.id, "a higher rank needs it") for one in low if one.preemptible]
        return steps


@hookimpl
def kernel_contracts():
    return {"scheduler": 1}


@hookimpl
def kernel_schedulers():
    return {"ruthless": Ruthless}
""",
}
SECONDS = 120.0


@pytest.fixture
def ruthless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scheduler plugin `ruthless` is installed."""
    with tempfile.TemporaryDirectory(dir="/tmp") as site:
        for name, text in RUTHLESS.items():
            path = Path(site, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        monkeypatch.syspath_prepend(site)
        yield


@pytest.mark.usefixtures("ruthless")
def test_a_preempted_task_runs_again_and_loses_no_retry(tmp_path: Path) -> None:
    @kernel.remote(max_retries=1)
    def patient(name: str) -> int:
        """Wait to be let go, and return how often it was begun."""
        begun = len(list(tmp_path.glob(f"{name}.*")))
        (tmp_path / f"{name}.{begun}").touch()
        wait_until(lambda: (tmp_path / "go").exists(), SECONDS, "being let go")
        return begun + 1

    @kernel.remote(scheduling_hints={"rank": 1})
    def urgent() -> str:
        return "done"

    with running_session(num_cpus=2, scheduler="ruthless"):
        mild = patient.remote("mild")
        stubborn = patient.options(max_retries=0).remote("stubborn")
        for again in range(3):
            wait_until(lambda: len(list(tmp_path.glob("*.*"))) == again + 2, SECONDS, "both running")  # noqa: B023
            assert kernel.get(urgent.remote(), timeout=SECONDS) == "done"
        (tmp_path / "go").touch()
        assert kernel.get([mild, stubborn], timeout=SECONDS) == [4, 1]
